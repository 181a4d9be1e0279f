"""The command `pid-quota uninstall`."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Annotated

import typer

from broker.doctor.cluster_checks import settings_of_brokers
from broker.doctor.enforcer_checks import enforcers
from broker.doctor.plugin_checks import MAX_SILENCE_MS
from broker.doctor.removal import (
    Step,
    by_hand_steps,
    grant_steps,
    hold_steps,
    quota_steps,
    require_no_enforcer,
    topic_steps,
)
from broker.enforcement.model import Lease, LeaseRecord, open_leases
from broker.enforcement.store.lease_topic import LeaseTopic, kept_leases
from broker.errors import BrokerError, EnforceError, TopicMissingError
from broker.kafka.client import KafkaAdmin
from broker.kafka.config import KafkaConfig
from broker.kafka.grants import Grants
from broker.kafka.holds import HoldBindings
from broker.kafka.own_rights import OwnRights
from broker.kafka.quotas import ClientQuotas
from broker.kafka.report_tail import newest_states
from broker.kafka.roles import RIGHTS, Role
from broker.kafka.topic_setup import TopicSetup
from jobs.options import BootstrapServers, JsonOption, KafkaConfigFile
from jobs.output.human import plural
from jobs.output.json_out import print_json
from jobs.output.terminal import output, printable
from jobs.setup.principals import (
    BrokerPrincipal,
    EnforcerPrincipal,
    OperatorPrincipal,
    StreamPrincipal,
    principals,
)
from wire.holds import HOLD_AUTHORIZER
from wire.plugin_reports import REPORTER_CLASS, StopReport
from wire.topics import ENFORCER_TOPIC


def uninstall(
    bootstrap_servers: BootstrapServers,
    kafka_config: KafkaConfigFile = None,
    broker_principal: BrokerPrincipal = None,
    stream_principal: StreamPrincipal = None,
    enforcer_principal: EnforcerPrincipal = None,
    operator_principal: OperatorPrincipal = None,
    delete_topics: Annotated[
        bool, typer.Option("--delete-topics", help="Delete pid-quota's topics, with all produce events.")
    ] = False,
    shared_rights: Annotated[
        bool,
        typer.Option(
            "--shared-rights", help="Also remove rights on shared resources, which may be older than pid-quota."
        ),
    ] = False,
    apply: Annotated[
        bool, typer.Option("--apply/--dry-run", help="Remove, or only show what would be removed.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """End all throttles, and remove pid-quota's holds and rights from the cluster, but no tables.

    Without --apply, the command only shows what it would remove.
    """
    kafka = KafkaConfig.load(bootstrap_servers, kafka_config)
    who = principals(broker_principal, stream_principal, enforcer_principal, operator_principal)
    settings = kafka.client()
    user = f"User:{settings.get('sasl.username')}"
    if user in who.values():
        msg = f"{user} runs this command, which would remove that user's own rights: run it as an administrator"
        raise typer.BadParameter(msg)
    require_no_enforcer(enforcers(settings))
    with ExitStack() as stack:
        admin = stack.enter_context(KafkaAdmin(kafka.kafka_python()))
        # Read the settings before the rights are removed.
        by_hand = by_hand_steps(settings_of_brokers(admin), REPORTER_CLASS, HOLD_AUTHORIZER)
        report = _Report(apply, as_json, by_hand)
        report.carry_out(_throttles(stack, kafka, by_hand.append))
        require_no_enforcer(enforcers(settings))
        grants = Grants(settings, denies_by_default=True, with_holds=True)
        plan = grants.plan(who)
        report.carry_out(grant_steps(grants, plan, by_hand.append, bootstrap_servers, shared=shared_rights))
        if delete_topics:
            report.carry_out(topic_steps(TopicSetup(settings), by_hand.append, _writers(settings)))
    report.end()


class _Report:
    def __init__(self, apply: bool, as_json: bool, by_hand: list[str]) -> None:
        self._apply, self._as_json, self._by_hand = apply, as_json, by_hand
        self._removed = 0

    def carry_out(self, steps: Iterable[Step]) -> None:
        """Carry out all steps. Then raise `EnforceError` if a step failed, so that the command removes nothing else."""
        failures = []
        for step in steps:
            try:
                if self._apply:
                    step.run()
            except BrokerError as error:
                failures.append(f"{step.what} ({error})")
                continue
            self._removed += 1
            action = "removed" if self._apply else "would remove"
            if self._as_json:
                print_json({"action": action, "what": step.what})
            else:
                output().print(printable(f"{action} {step.what}"), soft_wrap=True)
        if failures:
            msg = f"not removed: {'; '.join(failures)}. The remaining rights and topics stay; repeat the command"
            raise EnforceError(msg)

    def end(self) -> None:
        if self._as_json:
            print_json({"by_hand": self._by_hand})
            return
        for line in self._by_hand:
            output().print(printable(f"by hand: {line}"), soft_wrap=True)
        output().print(f"{plural(self._removed, 'removal')}{'' if self._apply else '; add --apply to carry them out'}")


def _throttles(stack: ExitStack, kafka: KafkaConfig, left: Callable[[str], None]) -> Iterator[Step]:
    settings, client = kafka.client(), kafka.kafka_python()
    leases = _open_leases(settings)
    quotas = stack.enter_context(ClientQuotas(client))
    yield from quota_steps(quotas, leases, lambda lease: _note(settings, lease), left)
    yield from hold_steps(stack.enter_context(HoldBindings(client)))


def _open_leases(settings: Mapping[str, str]) -> list[Lease]:
    try:
        return [*open_leases(kept_leases(settings)).values()]
    except TopicMissingError:
        # Brokers hide a topic from users without rights. If this user lacks rights, there may be open leases.
        topic = [right for right in RIGHTS[Role.ENFORCER] if right.name == ENFORCER_TOPIC]
        if OwnRights(settings).missing(topic[:1]):
            raise
        return []


def _writers(settings: Mapping[str, str]) -> list[int]:
    """Return the brokers whose plugin still runs."""
    try:
        states = newest_states(settings)
    except TopicMissingError:
        return []
    since_ms = 1000 * time.time() - MAX_SILENCE_MS
    running = (each for each in states.values() if not isinstance(each.state, StopReport))
    return [each.state.broker_id for each in running if each.appended_ms > since_ms]


def _note(settings: Mapping[str, str], lease: Lease) -> None:
    with LeaseTopic(settings) as topic:
        topic.append([LeaseRecord(round(time.time() * 1000), lease.to("restored"), "uninstalled", "uninstall")])

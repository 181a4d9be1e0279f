"""The command `pid-quota uninstall`."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Annotated

import typer

from broker.doctor.cluster_checks import settings_of_brokers
from broker.doctor.plugin_checks import MAX_SILENCE_MS
from broker.doctor.removal import Step, by_hand_steps, grant_steps, hold_steps, topic_steps
from broker.enforcement.hold_topic import HoldTopic, steady_ms
from broker.errors import BrokerError, RemovalError, TopicMissingError
from broker.kafka.client import KafkaAdmin
from broker.kafka.config import KafkaConfig
from broker.kafka.grants import Grants
from broker.kafka.report_tail import newest_states
from broker.kafka.topic_setup import TopicSetup
from jobs.options import BootstrapServers, JsonOption, KafkaConfigFile
from jobs.output.human import plural
from jobs.output.json_out import print_json
from jobs.output.terminal import output, printable
from jobs.setup.principals import (
    BrokerPrincipal,
    OperatorPrincipal,
    StreamPrincipal,
    principals,
)
from wire.plugin_reports import REPORTER_CLASS, StopReport


def uninstall(
    bootstrap_servers: BootstrapServers,
    kafka_config: KafkaConfigFile = None,
    broker_principal: BrokerPrincipal = None,
    stream_principal: StreamPrincipal = None,
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
    """End all holds, and remove pid-quota's rights from the cluster, but no tables.

    Without --apply, the command only shows what it would remove.
    """
    kafka = KafkaConfig.load(bootstrap_servers, kafka_config)
    who = principals(broker_principal, stream_principal, operator_principal)
    settings = kafka.client()
    user = f"User:{settings.get('sasl.username')}"
    if user in who.values():
        msg = f"{user} runs this command, which would remove that user's own rights: run it as an administrator"
        raise typer.BadParameter(msg)
    with ExitStack() as stack:
        admin = stack.enter_context(KafkaAdmin(kafka.kafka_python()))
        # Read the settings before the rights are removed.
        by_hand = by_hand_steps(settings_of_brokers(admin), REPORTER_CLASS)
        report = _Report(apply, as_json, by_hand)
        report.carry_out(_holds(stack, settings))
        grants = Grants(settings, denies_by_default=True)
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
        """Carry out all steps. Then raise `RemovalError` if a step failed, so that the command removes nothing else."""
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
            raise RemovalError(msg)

    def end(self) -> None:
        if self._as_json:
            print_json({"by_hand": self._by_hand})
            return
        for line in self._by_hand:
            output().print(printable(f"by hand: {line}"), soft_wrap=True)
        output().print(f"{plural(self._removed, 'removal')}{'' if self._apply else '; add --apply to carry them out'}")


def _holds(stack: ExitStack, settings: Mapping[str, str]) -> Iterator[Step]:
    try:
        topic = stack.enter_context(HoldTopic(settings))
    except TopicMissingError:
        return
    now_ms = topic.state.time.now_ms(steady_ms())
    yield from hold_steps(topic, round(time.time() * 1000) if now_ms is None else now_ms)


def _writers(settings: Mapping[str, str]) -> list[int]:
    """Return the brokers whose plugin still runs."""
    try:
        states = newest_states(settings)
    except TopicMissingError:
        return []
    since_ms = 1000 * time.time() - MAX_SILENCE_MS
    running = (each for each in states.values() if not isinstance(each.state, StopReport))
    return [each.state.broker_id for each in running if each.appended_ms > since_ms]

"""`pid-quota uninstall`: removes what pid-quota made on the cluster."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Annotated

import typer

from broker.doctor.cluster_checks import settings_of_brokers
from broker.doctor.enforcer_checks import enforcers
from broker.doctor.removal import (
    Step,
    broker_lines,
    grant_steps,
    hold_steps,
    quota_steps,
    require_no_enforcer,
    topic_steps,
)
from broker.enforcement.store.lease_topic import kept_leases
from broker.kafka.client import KafkaAdmin
from broker.kafka.config import KafkaConfig
from broker.kafka.grants import Grants
from broker.kafka.holds import HoldBindings
from broker.kafka.quotas import ClientQuotas
from broker.kafka.roles import Role
from broker.kafka.topic_setup import TopicSetup
from jobs.options import BootstrapServers, JsonOption, KafkaConfigFile
from jobs.output.human import plural
from jobs.output.json_out import print_json
from jobs.output.terminal import output, printable
from jobs.setup.principals import (
    EnforcerPrincipal,
    OperatorPrincipal,
    ShipperPrincipal,
    StreamPrincipal,
    TapPrincipal,
    principals,
)
from wire.broker_lines import REPORTER_CLASS
from wire.holds import HOLD_AUTHORIZER


def uninstall(
    bootstrap_servers: BootstrapServers,
    kafka_config: KafkaConfigFile = None,
    tap_principal: TapPrincipal = None,
    stream_principal: StreamPrincipal = None,
    enforcer_principal: EnforcerPrincipal = None,
    operator_principal: OperatorPrincipal = None,
    shipper_principal: ShipperPrincipal = None,
    delete_topics: Annotated[
        bool, typer.Option("--delete-topics", help="Delete our topics, with all produce events.")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply/--dry-run", help="Remove, or only show what would go.")] = False,
    as_json: JsonOption = False,
) -> None:
    """End all throttles, and remove holds, rights and topics. Without --apply: a dry run. Tables stay."""
    kafka = KafkaConfig.load(bootstrap_servers, kafka_config)
    who = principals(tap_principal, stream_principal, enforcer_principal, operator_principal, shipper_principal)
    settings = kafka.client()
    require_no_enforcer(enforcers(settings))
    with ExitStack() as stack:
        removed = 0
        for step in _steps(stack, kafka, who, delete_topics=delete_topics):
            if apply:
                step.run()
            removed += 1
            action = "removed" if apply else "would remove"
            if as_json:
                print_json({"action": action, "what": step.what})
            else:
                output().print(printable(f"{action} {step.what}"))
        lines = broker_lines(
            settings_of_brokers(stack.enter_context(KafkaAdmin(kafka.kafka_python()))), REPORTER_CLASS, HOLD_AUTHORIZER
        )
    if as_json:
        print_json({"by_hand": lines})
        return
    for line in lines:
        output().print(printable(f"by hand: {line}"))
    output().print(printable(f"{plural(removed, 'removal')}{'' if apply else '; add --apply to carry them out'}"))


def _steps(stack: ExitStack, kafka: KafkaConfig, who: dict[Role, str], *, delete_topics: bool) -> Iterator[Step]:
    settings, client = kafka.client(), kafka.kafka_python()
    yield from quota_steps(stack.enter_context(ClientQuotas(client)), lambda: kept_leases(settings))
    yield from hold_steps(stack.enter_context(HoldBindings(client)))
    # The rights of all roles, whatever the authorizer is now.
    grants = Grants(settings, denies_by_default=True, with_holds=True)
    yield from grant_steps(grants, grants.plan(who))
    if delete_topics:
        yield from topic_steps(TopicSetup(settings))

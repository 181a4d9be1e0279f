"""The command `pid-quota topics`."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from broker.doctor.hold_checks import holds_in_force
from broker.doctor.plugin_checks import UNDO, require_no_plugin
from broker.enforcement.hold_topic import HoldTopic, steady_ms
from broker.enforcement.model import Change
from broker.errors import TopicError, TopicMissingError
from broker.kafka.acls import lets_brokers_write
from broker.kafka.client import KafkaAdmin
from broker.kafka.config import KafkaConfig
from broker.kafka.grants import Grants
from broker.kafka.report_tail import newest_states
from broker.kafka.topic_setup import DEFAULT_RETENTION_HOURS, TopicOutcome, TopicSetup, plan_topics
from broker.kafka.topics import admin_client, existing_topics
from jobs.options import BootstrapServers, JsonOption, KafkaConfigFile, one_user
from jobs.output.human import plural
from jobs.output.json_out import print_json
from jobs.output.terminal import output, printable
from wire.topics import EVENT_PARTITIONS, OWN_TOPICS

topics = typer.Typer(add_completion=False, no_args_is_help=True)

_RetentionOption = Annotated[int, typer.Option(min=1, help="Retention of the topics that are not compacted.")]


@topics.command()
def create(
    bootstrap_servers: BootstrapServers,
    kafka_config: KafkaConfigFile = None,
    partitions: Annotated[int, typer.Option(min=1, help="Number of partitions of produce-events.")] = EVENT_PARTITIONS,
    replication_factor: Annotated[
        int, typer.Option(help="Number of replicas of each topic; -1 uses the cluster's default.")
    ] = -1,
    retention_hours: _RetentionOption = DEFAULT_RETENTION_HOURS,
    alter: Annotated[bool, typer.Option("--alter", help="Correct settings that differ.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Create missing topics. Existing topics change only with --alter.

    The plugin does this itself, unless brokers have pid.quota.create.topics=false.
    """
    setup = TopicSetup(KafkaConfig.load(bootstrap_servers, kafka_config).client())
    plans = plan_topics(partitions, retention_hours)
    _show(setup.create(plans, replication_factor=replication_factor, alter=alter), as_json)


@topics.command()
def describe(
    bootstrap_servers: BootstrapServers,
    kafka_config: KafkaConfigFile = None,
    retention_hours: _RetentionOption = DEFAULT_RETENTION_HOURS,
    as_json: JsonOption = False,
) -> None:
    """Show which topics of pid-quota exist and which settings differ. This command changes nothing."""
    setup = TopicSetup(KafkaConfig.load(bootstrap_servers, kafka_config).client())
    _show(setup.describe(plan_topics(retention_hours=retention_hours)), as_json)


@topics.command()
def grant(
    bootstrap_servers: BootstrapServers,
    principal: Annotated[str, typer.Option(help="User of `pid-quota run`, such as User:pid-quota.")],
    kafka_config: KafkaConfigFile = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print Kafka's own commands.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Let a user read the topics of pid-quota, by ACLs on them and on groups pid-quota*.

    A user that pid.quota.writers of the brokers names needs no ACL.
    """
    whom = one_user(principal)
    kafka = KafkaConfig.load(bootstrap_servers, kafka_config)
    grants = Grants(kafka.client())
    plan = grants.plan(whom)
    if not dry_run:
        _require_safe(kafka, grants.first_on_topics(plan))
        plan = grants.create(plan)
    login = f" --command-config {kafka_config}" if kafka_config else ""
    for each in plan:
        command = each.command(bootstrap_servers) + login if dry_run and each.action == "missing" else ""
        if as_json:
            found = {"principal": whom, "right": each.right.words, "action": each.action}
            print_json(found | ({"command": command} if command else {}))
        else:
            output().print(printable(command or f"{each.action} {each.words}"), soft_wrap=True)


@topics.command()
def delete(
    bootstrap_servers: BootstrapServers,
    kafka_config: KafkaConfigFile = None,
    principal: Annotated[str | None, typer.Option(help="Also take back the rights of this user.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    as_json: JsonOption = False,
) -> None:
    """End all holds, delete the topics of pid-quota and their records, and take back a user's rights on them.

    Take the plugin out of the brokers first. Tables and checkpoint stay.
    """
    whom = None if principal is None else one_user(principal)
    settings = KafkaConfig.load(bootstrap_servers, kafka_config).client()
    with suppress(TopicMissingError):
        require_no_plugin(newest_states(settings), _now_ms())
    with ExitStack() as stack:
        for what, remove in [*_holds(stack, settings), *_topics(settings), *_rights(settings, whom)]:
            if not dry_run:
                remove()
            action = "would remove" if dry_run else "removed"
            if as_json:
                print_json({"action": action, "what": what})
            else:
                output().print(printable(f"{action} {what}"), soft_wrap=True)
    if not as_json:
        output().print(printable(f"If you have not yet: {UNDO}"), soft_wrap=True)


def _require_safe(kafka: KafkaConfig, first: Sequence[str]) -> None:
    """Raise TopicError if the first ACLs on these topics might take WRITE from the brokers' own user."""
    if not first:
        return
    with KafkaAdmin(kafka) as admin:
        unsafe = [number for number in admin.brokers() if not lets_brokers_write(admin.broker_settings(number))]
    if unsafe:
        msg = (
            f"broker {', '.join(map(str, unsafe))} does not run pidquota.HoldAuthorizer, or hides it, so first ACLs "
            f"on {', '.join(first)} might keep the plugin from writing: set authorizer.class.name. If brokers deny "
            "what no ACL allows, run the commands that --dry-run prints"
        )
        raise TopicError(msg)


_Steps = Iterator[tuple[str, Callable[[], object]]]


def _holds(stack: ExitStack, settings: Mapping[str, str]) -> _Steps:
    try:
        topic = stack.enter_context(HoldTopic(settings))
    except TopicMissingError:
        return
    now_ms = topic.state.time.now_ms(steady_ms()) or _now_ms()
    for each in holds_in_force(topic.state, now_ms):
        yield f"hold on {each.principal}", partial(topic.write, [Change(each.principal, None)])


def _topics(settings: Mapping[str, str]) -> _Steps:
    setup = TopicSetup(settings)
    for name in sorted(OWN_TOPICS & existing_topics(admin_client(settings)).keys()):
        yield f"topic {name} and its records", partial(setup.delete, name)


def _rights(settings: Mapping[str, str], principal: str | None) -> _Steps:
    if principal is not None:
        grants = Grants(settings)
        for each in grants.plan(principal):
            if each.action == "exists":
                yield f"right {each.words}", partial(grants.remove, [each])


def _show(outcomes: Sequence[TopicOutcome], as_json: bool) -> None:
    for outcome in outcomes:
        if as_json:
            print_json(asdict(outcome))
            continue
        wrong = "; ".join(f"{each.setting} is {each.found}, not {each.wanted}" for each in outcome.differences)
        output().print(
            printable(f"{outcome.name}: {outcome.action}, {plural(outcome.partitions, 'partition')} {wrong}".rstrip())
        )


def _now_ms() -> int:
    return round(time.time() * 1000)

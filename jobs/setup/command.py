"""The command `pid-quota topics`."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
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
from broker.kafka.topic_setup import TopicOutcome, TopicSetup, plan_topics
from broker.kafka.topics import admin_client, existing_topics
from jobs.kafka_login import kafka_login
from jobs.once import OnceCommand
from jobs.options import BootstrapServers, KafkaConfigFile
from jobs.output.human import plural
from jobs.output.terminal import output, printable
from jobs.principals import ONE_READER, read_user
from wire.topics import EVENT_PARTITIONS, OWN_TOPICS, PRODUCE_EVENTS

topics = typer.Typer(add_completion=False, no_args_is_help=True)

_Reader = Annotated[str | None, typer.Option("--reader", help="User of `pid-quota run`, such as User:pid-quota.")]


@topics.command(cls=OnceCommand)
def create(
    bootstrap_servers: BootstrapServers,
    kafka_config: KafkaConfigFile = None,
    reader: _Reader = None,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, show_default=str(EVENT_PARTITIONS), help="Partitions of produce-events, if it is new."),
    ] = None,
    replication_factor: Annotated[
        int, typer.Option(help="Number of replicas of each topic; -1 uses the cluster's default.")
    ] = -1,
    retention_hours: Annotated[
        int | None,
        typer.Option(
            min=1,
            show_default="a week in a new topic",
            help="Retention of the topics. With --alter, existing topics get it, too.",
        ),
    ] = None,
    alter: Annotated[bool, typer.Option("--alter", help="Correct settings of existing topics that differ.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing: show the topics, and Kafka's commands for --reader.")
    ] = False,
) -> None:
    """Create missing topics, and let a user read them by ACLs on them and on groups pid-quota*.

    The plugin creates topics itself, unless brokers have pid.quota.create.topics=false. A user that pid.quota.writers
    of the brokers names needs no ACL.
    """
    whom = None if reader is None else read_user(reader, ONE_READER)
    kafka = kafka_login(bootstrap_servers, kafka_config)
    setup, plans = TopicSetup(kafka.client()), plan_topics(partitions, retention_hours)
    if dry_run:
        outcomes = setup.describe(plans)
    else:
        outcomes = setup.create(plans, replication_factor=replication_factor, alter=alter)
    _show(outcomes)
    if whom is not None:
        _grant(kafka, whom, dry_run=dry_run, login=("--bootstrap-server", bootstrap_servers, *_config(kafka_config)))
    _require_partitions(outcomes, partitions)


def _config(file: Path | None) -> tuple[str, ...]:
    return () if file is None else ("--command-config", str(file))


def _grant(kafka: KafkaConfig, principal: str, *, dry_run: bool, login: Sequence[str]) -> None:
    """Grant a user's missing rights, or print Kafka's own commands that do so."""
    grants = Grants(kafka.client())
    plan = grants.plan(principal)
    if not dry_run:
        _require_safe(kafka, grants.first_on_topics(plan))
        plan = grants.create(plan)
    for each in plan:
        text = each.command(login) if dry_run and each.action == "missing" else f"{each.action} {each.words}"
        output().print(printable(text), soft_wrap=True)


@topics.command(cls=OnceCommand)
def delete(
    bootstrap_servers: BootstrapServers,
    kafka_config: KafkaConfigFile = None,
    reader: _Reader = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
) -> None:
    """End all holds, delete the topics of pid-quota and their records, and take back a reader's rights on them.

    Take the plugin out of the brokers first. Tables and checkpoint stay.
    """
    whom = None if reader is None else read_user(reader, ONE_READER)
    settings = kafka_login(bootstrap_servers, kafka_config).client()
    with suppress(TopicMissingError):
        require_no_plugin(newest_states(settings), _now_ms())
    with ExitStack() as stack:
        for what, remove in [*_holds(stack, settings), *_topics(settings), *_rights(settings, whom)]:
            if not dry_run:
                remove()
            output().print(printable(f"{'would remove' if dry_run else 'removed'} {what}"), soft_wrap=True)
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


def _show(outcomes: Sequence[TopicOutcome]) -> None:
    for outcome in outcomes:
        wrong = "; ".join(f"{each.setting} is {each.found}, not {each.wanted}" for each in outcome.differences)
        line = f"{outcome.name}: {outcome.action}, {plural(outcome.partitions, 'partition')}"
        output().print(printable(f"{line}: {wrong}" if wrong else line))


def _require_partitions(outcomes: Sequence[TopicOutcome], wanted: int | None) -> None:
    """Raise TopicError if the topic of events exists with another number of partitions than a script asks for."""
    for outcome in outcomes:
        # A topic that a dry run finds missing has no partitions.
        if wanted and outcome.name == PRODUCE_EVENTS and outcome.partitions not in (0, wanted):
            msg = (
                f"topic {outcome.name} exists with {plural(outcome.partitions, 'partition')}, not {wanted}, and keeps "
                "them, because a change would break the order of a user's events: leave out --partitions, or delete "
                "the topic while nobody uses it, then create it"
            )
            raise TopicError(msg)


def _now_ms() -> int:
    return round(time.time() * 1000)

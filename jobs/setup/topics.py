"""`pid-quota topics`: creates and describes our topics, and grants access to them."""

from dataclasses import asdict
from typing import Annotated

import typer

from broker.kafka.config import KafkaConfig
from broker.kafka.topic_setup import DEFAULT_RETENTION_HOURS, Principals, TopicOutcome, TopicSetup, plan_topics
from broker.kafka.topics import DEFAULT_PARTITIONS
from jobs.options import BootstrapServers, JsonOption, KafkaConfigFile
from jobs.output.human import plural
from jobs.output.json_out import print_json
from jobs.output.terminal import output, printable

topics = typer.Typer(add_completion=False, no_args_is_help=True)

_RetentionOption = Annotated[int, typer.Option(min=1, help="Retention of the topics that are not compacted.")]


@topics.command()
def create(
    bootstrap_servers: BootstrapServers,
    kafka_config: KafkaConfigFile = None,
    partitions: Annotated[int, typer.Option(min=1, help="Number of partitions of each topic.")] = DEFAULT_PARTITIONS,
    replication_factor: Annotated[
        int, typer.Option(help="Number of replicas of each topic; -1 takes the cluster's default.")
    ] = -1,
    retention_hours: _RetentionOption = DEFAULT_RETENTION_HOURS,
    alter: Annotated[bool, typer.Option("--alter", help="Correct settings that differ.")] = False,
    tap_principal: Annotated[
        str | None, typer.Option(help="The only principal that may write, such as User:tap.")
    ] = None,
    stream_principal: Annotated[str | None, typer.Option(help="Principal that may read, such as User:stream.")] = None,
    shipper_principal: Annotated[
        str | None, typer.Option(help="The only principal that may write broker-logs.")
    ] = None,
    enforcer_principal: Annotated[
        str | None, typer.Option(help="The only principal that may use the enforcers' topic.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Create our missing topics; existing ones change only with --alter."""
    setup = TopicSetup(KafkaConfig.load(bootstrap_servers, kafka_config).client())
    plans = plan_topics(partitions, retention_hours)
    _show(setup.create(plans, replication_factor=replication_factor, alter=alter), as_json)
    who = Principals(tap_principal, stream_principal, shipper_principal, enforcer_principal)
    if who != Principals():
        for right in setup.grant(who):
            print_json({"granted": right}) if as_json else output().print(printable(f"granted {right}"))


@topics.command()
def describe(
    bootstrap_servers: BootstrapServers,
    kafka_config: KafkaConfigFile = None,
    retention_hours: _RetentionOption = DEFAULT_RETENTION_HOURS,
    as_json: JsonOption = False,
) -> None:
    """Show which of our topics exist and which settings differ; changes nothing."""
    setup = TopicSetup(KafkaConfig.load(bootstrap_servers, kafka_config).client())
    _show(setup.describe(plan_topics(retention_hours=retention_hours)), as_json)


def _show(outcomes: list[TopicOutcome], as_json: bool) -> None:
    for outcome in outcomes:
        if as_json:
            print_json(asdict(outcome))
            continue
        wrong = "; ".join(f"{each.setting} is {each.found}, not {each.wanted}" for each in outcome.differences)
        output().print(
            printable(f"{outcome.name}: {outcome.action}, {plural(outcome.partitions, 'partition')} {wrong}".rstrip())
        )

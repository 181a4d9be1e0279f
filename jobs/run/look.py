"""Looks for the brokers of a cluster and their plugins, and prints what it finds as JSON: `python -m jobs.run.look`.

It is a program of its own, so that Kafka's client is not part of the process that supervises.
"""

import json
from dataclasses import asdict, dataclass, field

import typer
from confluent_kafka import KafkaException

from broker.errors import BrokerUnreachableError, TopicMissingError
from broker.kafka.report_tail import newest_states
from broker.kafka.topics import admin_client, existing_topics
from jobs.cli import run_command
from jobs.kafka_login import kafka_login
from jobs.options import BootstrapServers, KafkaConfigFile
from wire.topics import PRODUCE_EVENTS, REPORTS


@dataclass(frozen=True)
class Found:
    """What a look has found.

    Attributes:
        unreachable: why no broker answers; empty if one does.
        no_plugin: what tells that the brokers load no plugin; empty if they do.
        plugins: versions of the plugins, by broker.
    """

    unreachable: str = ""
    no_plugin: str = ""
    plugins: dict[str, str] = field(default_factory=dict)


def look(
    bootstrap_servers: BootstrapServers,
    kafka_config: KafkaConfigFile = None,
) -> None:
    """Print what there is."""
    kafka = kafka_login(bootstrap_servers, kafka_config)
    # The stream's source may lack a setting that this client has.
    kafka.spark_options()
    try:
        found = find(kafka.client())
    except BrokerUnreachableError as error:
        found = Found(unreachable=str(error))
    typer.echo(json.dumps(asdict(found)))


def find(config: dict[str, str]) -> Found:
    """Look once.

    Raises:
        BrokerUnreachableError: If no broker answers.
        LoginRefusedError: If brokers refuse the login.
    """
    topics = existing_topics(admin_client(config))
    missing = [each for each in (PRODUCE_EVENTS, REPORTS) if each not in topics]
    if missing:
        return Found(no_plugin=f"there is no topic {' and no topic '.join(missing)} that this user may see")
    try:
        states = newest_states(config)
    except TopicMissingError as error:
        return Found(no_plugin=str(error))
    except KafkaException:
        # The stream says which right is missing.
        return Found()
    if not states:
        return Found(no_plugin=f"topic {REPORTS} holds no report")
    return Found(plugins={str(broker): each.state.plugin_version for broker, each in sorted(states.items())})


if __name__ == "__main__":
    run_command(look)

"""`pid-quota tap poll`, for clusters without access to logs: asks the brokers which producer ids they hold."""

import json
import signal
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from broker.cluster.kafka_config import KafkaConfig
from broker.tap.poll_owners import OwnerPatterns
from broker.tap.producer_poll import LedProducers, ProducerPoll
from jobs.tables_out import JsonOption
from jobs.terminal import output, printable
from wire.topics import PRODUCE_EVENTS


def poll_producers(
    bootstrap_servers: Annotated[str, typer.Option(help="Brokers, as host:port,host:port.")],
    seconds: Annotated[float, typer.Option("--poll-producers", min=1, help="From the end of one round to the next.")],
    owners: Annotated[
        Path | None, typer.Option(help="YAML or CSV: topic or transactional.id pattern to principal. Else only counts.")
    ] = None,
    topic: Annotated[str, typer.Option(help="Topic of produce events.")] = PRODUCE_EVENTS,
    kafka_config: Annotated[
        Path | None, typer.Option(help="Client settings, as name=value lines (librdkafka names).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Count the producer ids of all partitions in rounds, gently; make produce events of what --owners places."""
    kafka = KafkaConfig.load(bootstrap_servers, kafka_config)
    placed = None if owners is None else OwnerPatterns.load(owners)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    poll = ProducerPoll(kafka, seconds, owners=placed, topic=topic, report=lambda counts: _show(counts, as_json))
    poll.run(stop)
    if as_json:
        typer.echo(json.dumps(asdict(poll.counters)))
    else:
        output().print(", ".join(f"{name} {count}" for name, count in asdict(poll.counters).items()), markup=False)


def _show(counts: Sequence[LedProducers], as_json: bool) -> None:
    for each in counts:
        if as_json:
            typer.echo(json.dumps(asdict(each)))
        else:
            counts_of_it = f"{each.producers} producer ids, {each.in_transaction} in a transaction"
            output().print(printable(f"broker {each.broker_id}, {each.topic}: {counts_of_it}"))

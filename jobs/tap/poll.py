"""`pid-quota tap poll`: polls brokers for the producer ids they hold, where their logs can't be read."""

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
    seconds: Annotated[float, typer.Option("--poll-producers", min=1, help="Pause between rounds.")],
    owners: Annotated[
        Path | None,
        typer.Option(help="YAML or CSV of topic or transactional.id patterns to principals. Without it: counts only."),
    ] = None,
    topic: Annotated[str, typer.Option(help="Topic of produce events.")] = PRODUCE_EVENTS,
    kafka_config: Annotated[
        Path | None, typer.Option(help="Client settings, as name=value lines (librdkafka names).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Count the producer ids of all partitions in rounds; make produce events of those that --owners matches."""
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

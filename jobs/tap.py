"""`pid-quota tap`: follows a broker's log and writes produce events, until it is told to stop."""

import json
import signal
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from broker.kafka_config import KafkaConfig
from broker.tap import Tap
from broker.topics import PRODUCE_EVENTS, ensure_topics
from jobs.console import output
from jobs.tables_sql import JsonOption


def tap(
    log_file: Annotated[Path, typer.Option(help="What the broker's appender writes; it may appear later.")],
    broker_id: Annotated[int, typer.Option(min=0, help="Node id of that broker.")],
    bootstrap_servers: Annotated[str, typer.Option(help="Brokers, as host:port,host:port.")],
    topic: Annotated[str, typer.Option(help="Topic of produce events.")] = PRODUCE_EVENTS,
    kafka_config: Annotated[
        Path | None, typer.Option(help="Client settings, as name=value lines (librdkafka names).")
    ] = None,
    position_file: Annotated[
        Path | None, typer.Option(help="Where the position is kept over restarts. [default: none is kept]")
    ] = None,
    from_end: Annotated[
        bool, typer.Option("--from-end", help="Without a saved position, begin at the end of the log.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Turn the log of one broker into produce events, until Ctrl-C or SIGTERM; the topics are made if missing."""
    settings = KafkaConfig.load(bootstrap_servers, kafka_config).client()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    ensure_topics(settings)
    running = Tap(log_file, broker_id, settings, topic=topic, from_end=from_end, position_file=position_file)
    if not as_json:
        output().print(f"tapping {log_file} of broker {broker_id} into {topic}; Ctrl-C ends it", markup=False)
    running.run(stop)
    counters = asdict(running.counters)
    if as_json:
        typer.echo(json.dumps(counters))
    else:
        output().print(", ".join(f"{name} {count}" for name, count in counters.items()))

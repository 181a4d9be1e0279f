"""The command `pid-quota tap`."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from confluent_kafka.admin import AclOperation

from broker.errors import RequestNotAllowedError
from broker.kafka.config import KafkaConfig
from broker.kafka.own_rights import OwnRights, lacks
from broker.kafka.roles import Role, rights_of
from broker.kafka.topics import ensure_topics
from broker.log.log_topic import TopicSource
from broker.log.sources import FileSource, Source
from broker.tap.asking import ask_brokers
from broker.tap.source_tap import SourceTap
from broker.tap.tap_metrics import TapMetrics
from jobs.options import LOOPBACK, SERVERS, JsonOption, KafkaConfigFile, MetricsHost, MetricsPort, TopicOption
from jobs.output.json_out import print_json
from jobs.output.terminal import output
from jobs.services.metrics_server import serving
from jobs.services.stopping import stopped_by_signals
from jobs.tap.broker_class import load_class, unload_class
from jobs.tap.poll import poll_producers
from jobs.tap.status import status
from wire.topics import BROKER_LOGS, PRODUCE_EVENTS

app = typer.Typer()
app.command("status")(status)
app.command("load-class")(load_class)
app.command("unload-class")(unload_class)
app.command("poll")(poll_producers)


@app.callback(invoke_without_command=True)
def tap(
    context: typer.Context,
    log_file: Annotated[
        Path | None, typer.Option(help="File that the class in the broker writes. It may appear later.")
    ] = None,
    from_topic: Annotated[
        str | None, typer.Option(help="Topic of a log shipper to read the lines from, instead of a file.")
    ] = None,
    broker_id: Annotated[
        int | None,
        typer.Option(min=0, help="Node id of the broker that writes the file. Lines of a topic contain it."),
    ] = None,
    bootstrap_servers: Annotated[str | None, typer.Option(*SERVERS, help="Brokers, as host:port,host:port.")] = None,
    topic: TopicOption = PRODUCE_EVENTS,
    kafka_config: KafkaConfigFile = None,
    position_file: Annotated[
        Path | None, typer.Option(help="File that keeps the position over restarts. [default: none]")
    ] = None,
    metadata_log: Annotated[
        Path | None,
        typer.Option(help="Folder of a metadata log, for blocks of producer ids. [default: the class names it]"),
    ] = None,
    from_end: Annotated[
        bool, typer.Option("--from-end", help="Without a saved position, start at the end of the file.")
    ] = False,
    learn_seconds: Annotated[
        float,
        typer.Option(
            min=0,
            help="Time after the start in which events are marked as learning (uncharged). Use the stream's window.",
        ),
    ] = 3600.0,
    no_asking: Annotated[
        bool,
        typer.Option(
            "--no-asking", help="Learn by waiting, instead of asking the brokers which producer ids they hold."
        ),
    ] = False,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = LOOPBACK,
    as_json: JsonOption = False,
) -> None:
    """Create missing topics, and turn the lines of a broker's class into produce events until Ctrl-C or SIGTERM."""
    if context.invoked_subcommand is not None:
        return
    if bootstrap_servers is None:
        msg = "Missing option '--bootstrap-servers'."
        raise typer.BadParameter(msg)
    kafka = KafkaConfig.load(bootstrap_servers, kafka_config)
    settings = kafka.client()
    source, name = _source(log_file, from_topic, broker_id, settings, from_end=from_end)
    stop = stopped_by_signals()
    ensure_topics(settings)
    for warning in missing_rights(settings, topic, from_topic):
        _warn(warning)
    metrics = TapMetrics()
    running = SourceTap(
        source,
        settings,
        topic=topic,
        position_file=position_file,
        learn_seconds=learn_seconds,
        on_heartbeat=metrics.observe,
        metadata_log=metadata_log,
        ask=None if no_asking else ask_brokers(kafka.kafka_python()),
        warn=_warn,
    )
    if log_file is not None and not log_file.exists():
        _warn(f"{log_file} does not exist yet: the tap waits until the class in broker {broker_id} writes it")
    if not as_json:
        output().print(f"tapping {name} into {topic}; Ctrl-C ends it", markup=False)
    with serving(metrics, metrics_port, metrics_host, metrics.unready):
        running.run(stop)
    counters = asdict(running.counters)
    if as_json:
        print_json(counters)
    else:
        output().print(", ".join(f"{name} {count}" for name, count in counters.items()))


def _warn(text: str) -> None:
    typer.echo(f"pid-quota: {text}", err=True)


def missing_rights(settings: Mapping[str, str], topic: str, from_topic: str | None) -> list[str]:
    """Return a warning for each right that the tap lacks.

    Raises:
        RequestNotAllowedError: If the tap lacks a right to write.
    """
    rights = rights_of(Role.TAP, {PRODUCE_EVENTS: topic, BROKER_LOGS: from_topic})
    missing = OwnRights(settings).missing(rights)
    needed = [right for right in missing if right.operation is AclOperation.WRITE]
    if needed:
        raise RequestNotAllowedError(lacks(settings, Role.TAP, needed))
    return [f"{right.without}. {lacks(settings, Role.TAP, [right])}" for right in missing]


def _source(
    log_file: Path | None, from_topic: str | None, broker_id: int | None, settings: Mapping[str, str], *, from_end: bool
) -> tuple[Source, str]:
    if (log_file is None) == (from_topic is None):
        msg = "name either --log-file with --broker-id, or --from-topic"
        raise typer.BadParameter(msg)
    if from_topic is not None:
        return TopicSource(settings, from_topic, broker_id=broker_id, from_end=from_end), f"topic {from_topic}"
    if log_file is None or broker_id is None:
        msg = "--log-file needs --broker-id, the node id of the broker that writes it"
        raise typer.BadParameter(msg)
    return FileSource(log_file, broker_id, from_end=from_end), f"{log_file} of broker {broker_id}"

"""The command `pid-quota occupancy`."""

from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer

from broker.occupancy.census import take_census
from broker.occupancy.census_report import make_report
from jobs.kafka_login import kafka_login
from jobs.occupancy.printing import print_report, report_dict, write_metrics_file
from jobs.options import BootstrapServers, JsonOption, KafkaConfigFile, OptionalTables
from jobs.output.json_out import print_json
from jobs.output.progress import progress_bar
from jobs.output.terminal import output
from lifecycle.expiration_change import DEFAULT_DELIVERY_TIMEOUT_MS
from lifecycle.occupancy_rate import EarlierCensus
from tables.errors import TableNotFoundError
from tables.query.occupancy_rows import append, read_earlier, rows_of
from tables.times import to_ms


def occupancy(
    bootstrap_servers: BootstrapServers,
    tables: OptionalTables = None,
    max_pids_per_broker: Annotated[
        int | None, typer.Option(min=1, help="Forecast when a broker reaches this many producer ids.")
    ] = None,
    expiration_ms: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Simulate a value of producer.id.expiration.ms: the memory it frees, and who loses deduplication. "
            "It must exceed delivery.timeout.ms of your producers.",
        ),
    ] = None,
    kafka_config: KafkaConfigFile = None,
    metrics_file: Annotated[
        Path | None, typer.Option(help="File to write metrics to, for node_exporter's textfile collector.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show and forecast producer state in brokers' memory by topic and principal, and simulate changes (KIP-854)."""
    if expiration_ms is not None and expiration_ms < DEFAULT_DELIVERY_TIMEOUT_MS:
        msg = (
            f"--expiration-ms {expiration_ms} is below the default of delivery.timeout.ms, "
            f"{DEFAULT_DELIVERY_TIMEOUT_MS}: brokers would forget a producer that retries for so long, and store its "
            f"retry twice. Give {DEFAULT_DELIVERY_TIMEOUT_MS} or more"
        )
        raise typer.BadParameter(msg)
    kafka = kafka_login(bootstrap_servers, kafka_config)
    now = datetime.now(timezone.utc)
    with progress_bar("asking the brokers") as progress:
        taken = take_census(kafka, to_ms(now), report=progress)
    report = make_report(
        taken,
        {} if tables is None else _earlier(tables, now),
        limit=max_pids_per_broker,
        expiration_ms=expiration_ms,
        bootstrap_servers=bootstrap_servers,
    )
    if tables is not None:
        append(tables, rows_of(taken.census, report.occupancy, taken.missing, taken.brokers))
    if metrics_file is not None:
        write_metrics_file(metrics_file, report, now)
    if as_json:
        print_json(report_dict(report), indent=2)
    else:
        print_report(output(), report, limit=max_pids_per_broker)


def _earlier(tables: str, now: datetime) -> dict[int, list[EarlierCensus]]:
    try:
        return read_earlier(tables, now)
    except TableNotFoundError:
        # The first run of the command creates the table.
        return {}

"""`pid-quota size`: what taps, topic, stream and tables a cluster takes, and what gives first."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from broker.cluster.producers_admin import PARTITIONS_PER_REQUEST, REQUESTS_PER_SECOND
from broker.cluster.topic_setup import DEFAULT_RETENTION_HOURS
from jobs.size.costs import ERROR
from jobs.size.limits import Settings, SizeLimit, limits
from jobs.size.model import HEADROOM, Cluster, Storage, Stream, Taps, storage, stream, taps
from jobs.tables_out import CsvOption, JsonOption, form, show
from jobs.terminal import output
from quota.config import TICKS_PER_QUANTUM, QuotaConfig
from streaming.triggers import records_of_a_batch
from tables.catalog.answer import Answer

_COLUMNS = ("part", "figure", "value", "unit", "note")
_MAX_RESULT_BYTES = 2**30
_DEFAULT = QuotaConfig()

SizeRow = tuple[str, str, float | None, str, str]


def size(
    brokers: Annotated[int, typer.Option(min=1, help="Brokers of the cluster.")],
    produce_requests: Annotated[float, typer.Option(min=1, help="PRODUCE requests per second of all brokers.")],
    principals: Annotated[int, typer.Option(min=1, max=1_000_000, help="Principals that produce.")],
    pids: Annotated[int, typer.Option(min=1, help="Producer ids in use at a time.")],
    new_pids_per_hour: Annotated[float, typer.Option(min=0, help="New producer ids of all principals.")] = 0,
    batches_per_request: Annotated[float, typer.Option(min=0.01, help="Partitions of a request.")] = 1,
    brokers_per_pid: Annotated[int, typer.Option(min=1, help="Brokers that a producer id writes to.")] = 3,
    skew: Annotated[
        float, typer.Option(min=0, max=3, help="Zipf's exponent of producer ids per principal; 0: all alike.")
    ] = 0.8,
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of the cluster, asked for old ids.")] = 20_000,
    repeats_seconds: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            show_default="the stream's tick",
            help="The class in a broker leaves out repeats for so long.",
        ),
    ] = None,
    trigger_seconds: Annotated[float, typer.Option(min=0.1, help="Interval of micro-batches.")] = 5,
    metrics_interval_seconds: Annotated[
        float, typer.Option(min=1, help="Interval of an active principal's metrics rows.")
    ] = _DEFAULT.metrics_interval_seconds,
    window_seconds: Annotated[int, typer.Option(min=1, help="The quota's window.")] = _DEFAULT.window_seconds,
    layer_count: Annotated[int, typer.Option(min=1, help="Layers per window.")] = _DEFAULT.layer_count,
    retention_hours: Annotated[
        float, typer.Option(min=0, help="Of the topic of produce events.")
    ] = DEFAULT_RETENTION_HOURS,
    executor_cores: Annotated[int, typer.Option(min=1, help="Cores of an executor.")] = 4,
    max_offsets_per_trigger: Annotated[
        int | None, typer.Option(min=1, show_default="the stream's", help="As the stream's option.")
    ] = None,
    max_principals: Annotated[int, typer.Option(min=1, help="As the stream's option.")] = 50_000,
    max_uncharged_bytes: Annotated[
        int, typer.Option(min=1024, help="As the stream's option.")
    ] = _DEFAULT.max_uncharged_bytes,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Say what taps, topic, stream and tables a cluster takes, from measured costs, and what gives first."""
    wanted = form(as_json=as_json, as_csv=as_csv)
    config = QuotaConfig(window_seconds=window_seconds, layer_count=layer_count)
    if principals > pids:
        msg = f"{principals} principals have {pids} producer ids in use: give at least one each"
        raise typer.BadParameter(msg)
    tick_s = config.quantum_ms / TICKS_PER_QUANTUM / 1000
    cluster = Cluster(
        brokers=brokers,
        produce_requests=produce_requests,
        principals=principals,
        pids=pids,
        new_pids_per_hour=new_pids_per_hour,
        batches_per_request=batches_per_request,
        brokers_per_pid=brokers_per_pid,
        skew=skew,
        repeats_s=repeats_seconds or tick_s,
        tick_s=tick_s,
        trigger_s=trigger_seconds,
        metrics_interval_s=metrics_interval_seconds,
        retention_h=retention_hours,
    )
    tapped, streamed = taps(cluster), stream(cluster)
    settings = Settings(
        max_offsets_per_trigger or records_of_a_batch(f"{trigger_seconds} seconds"),
        max_principals,
        max_uncharged_bytes,
        _MAX_RESULT_BYTES,
        partitions,
        PARTITIONS_PER_REQUEST,
        REQUESTS_PER_SECOND,
        window_seconds,
    )
    reached = limits(cluster, tapped, streamed, settings)
    figures = [*of_taps(cluster, tapped), *of_stream(streamed, executor_cores), *of_storage(storage(cluster))]
    if wanted != "table":
        show(Answer(_COLUMNS, (*figures, *of_limits(reached))), wanted)
        return
    show(Answer(_COLUMNS, tuple(figures)), wanted, {"value": short})
    output().print()
    show(Answer(_COLUMNS[1:], tuple(row[1:] for row in of_limits(reached))), wanted, {"value": short})
    output().print()
    for line in verdict(reached, streamed):
        output().print(line, markup=False)


def of_taps(cluster: Cluster, tapped: Taps) -> Iterator[SizeRow]:
    """Yield the rows of taps."""
    yield "taps", "a broker's file", tapped.file_bytes_per_s / 1e6, "MB/s", "to its disk, rotated"
    yield "taps", "cores", tapped.cores, "cores", f"of {cluster.brokers} taps"
    yield "taps", "a tap", tapped.core_of_one, "cores", "of one, since it has one thread"
    yield "taps", "events", tapped.events_per_s, "events/s", "one a line: without repeats within a tick"
    yield (
        "taps",
        "records",
        tapped.records_per_s,
        "records/s",
        "at least, of version 2; costs are of an event a record",
    )


def of_stream(streamed: Stream, executor_cores: int) -> Iterator[SizeRow]:
    """Yield the rows of the stream."""
    cores, batch = streamed.cores, streamed.batch
    executors = None if cores is None else -(-cores // executor_cores)
    yield (
        "stream",
        "cores",
        cores,
        "cores",
        f"so that a batch takes {HEADROOM:.0%} of its trigger; the driver's besides",
    )
    yield "stream", "executors", executors, "executors", f"of {executor_cores} cores"
    yield (
        "stream",
        "topic partitions",
        streamed.partitions,
        "partitions",
        "of produce-events: two tasks a core, 250,000 PIDs each at most",
    )
    yield "stream", "state partitions", streamed.state_partitions, "partitions", "frozen in the checkpoint"
    yield "stream", "events of a batch", batch.events, "events", "see --max-offsets-per-trigger"
    yield "stream", "active principals", batch.active_principals, "principals", "of a batch, with a PID new to its tick"
    yield "stream", "CPU time of a batch", batch.cpu_s, "s", "of all cores"
    yield "stream", "time of a batch", streamed.batch_wall_s, "s", "with these cores"
    yield "stream", "decision, median", streamed.p50_s, "s", "from a produce to its row"
    yield "stream", "decision, 99 %", streamed.p99_s, "s", "the same"


def of_storage(stored: Storage) -> Iterator[SizeRow]:
    """Yield the rows of storage."""
    yield "storage", "topic", stored.topic_per_s / 1e6, "MB/s", "before compression, of one copy"
    yield (
        "storage",
        "topic on disk",
        stored.topic_disk / 1e9,
        "GB",
        "for its retention, of one copy, in full lz4 batches",
    )
    yield "storage", "state", stored.state / 1e6, "MB", "all ledgers; a batch may rewrite them all"
    yield "storage", "metrics rows", stored.rows_per_day, "rows/day", "without decisions"
    yield "storage", "tables", stored.tables_per_day / 1e6, "MB/day", "of these rows, after upkeep"


def of_limits(reached: Sequence[SizeLimit]) -> Iterator[SizeRow]:
    """Yield the limits, the one that gives first at the top."""
    for each in reached:
        used = f"{short(each.used)} of {short(each.bound)} {each.unit}"
        yield "limit", each.name, round(each.share * 100, 2), "%", f"{used}; then {each.then}"


def verdict(reached: Sequence[SizeLimit], streamed: Stream) -> Iterator[str]:
    """Yield what to know in the end."""
    first = reached[0]
    over = [each.name for each in reached if each.share > 1]
    if over:
        yield f"does not fit: {', '.join(over)}. First: {first.then}"
    elif streamed.cores is None:
        yield f"no number of cores keeps a batch within {HEADROOM:.0%} of its trigger: lengthen it"
    else:
        yield f"fits. First to give: {first.name}, at {1 / first.share:.1f} times this: {first.then}"
    yield f"a model of figures measured on 2 cores: {ERROR} where it was checked (docs/scale.md)"


def short(value: float) -> str:
    """Return a number to three digits.

    Examples:
        >>> short(2893005.8), short(56.4), short(0.0314), short(0), short(20000)
        ('2,890,000', '56.4', '0.0314', '0', '20,000')
    """
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 or rounded == int(rounded) else f"{rounded:g}"

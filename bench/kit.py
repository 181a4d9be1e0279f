"""Shared by the benchmarks: a Spark session, a stream's options, and the measurement of its query."""

import gc
import json
import math
import os
import platform
import re
import statistics
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from importlib import resources
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from bench.loads import BenchError, Content, Load
from bench.noise import Meter
from bench.rounds import Run
from broker.local.local_broker import LocalBroker
from jvm.jar_sets import jars_folder, spark_jars
from jvm.java import find_java
from jvm.process import run_to_end
from quota.config import QuotaConfig
from streaming.pipeline import StreamOptions
from streaming.session import stream_session
from streaming.triggers import AVAILABLE_NOW
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import set_quota
from tables.store.path_tables import create_missing

QUOTA = 100.0
POLL_S = 0.1
REMAINDER_SHARE = 0.1
BENCH = Path(__file__).parent
JOB_VARIANTS: dict[str, dict[str, Any]] = {
    "job": {},
    "job-each": {"state_buckets": 0},
    "job-delta-spark": {"sink": "delta-spark"},
}
"""The job as it is, with a state for each principal, and with the other writer of tables."""


def stream_options(
    broker: LocalBroker, load: Load, content: Content, folder: Path, batch_events: int, variant: str
) -> StreamOptions:
    """Create tables with a default quota, and return the options of a stream that reads a load."""
    tables = tables_with_quota(folder)
    return StreamOptions(
        topic=load.topic,
        kafka_options={"kafka.bootstrap.servers": broker.admin_servers},
        tables=tables,
        checkpoint=str(folder / "checkpoint"),
        trigger=AVAILABLE_NOW,
        max_offsets_per_trigger=math.ceil(batch_events / content.events_per_record),
        config=QuotaConfig(),
        **JOB_VARIANTS.get(variant, {}),
    )


def tables_with_quota(folder: Path) -> str:
    """Create tables with a default quota, and return their folder."""
    tables = str(folder / "tables")
    create_missing(tables)
    set_quota(tables, QuotaEntry(None, QUOTA, datetime.now(timezone.utc), "bench"))
    return tables


def session() -> SparkSession:
    """Return a Spark session like the job's."""
    os.environ["PYSPARK_SUBMIT_ARGS"] = "--conf spark.ui.showConsoleProgress=false pyspark-shell"
    spark = stream_session(spark_jars(jars_folder()))
    # `transformWithStateInPandas` logs a warning per new key and batch, which would distort the measurement.
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def collect_garbage(spark: SparkSession) -> None:
    """Collect the garbage of earlier runs in this process and in the JVM."""
    gc.collect()
    spark.sql("SELECT java_method('java.lang.System', 'gc')").collect()


def measure(query: StreamingQuery, checkpoint: Path, content: Content) -> Run:
    """Wait until a query has read all events, and return the rate and cost of its batches.

    Raises:
        BenchError: If there was only one batch.
    """
    while query.isActive and not any(each.numInputRows for each in query.recentProgress):
        time.sleep(POLL_S)
    with Meter() as meter:
        query.awaitTermination()
    found = [(each, events_of(each, content)) for each in query.recentProgress if each.numInputRows][1:]
    largest = max((events for _, events in found), default=0)
    found = [(each, events) for each, events in found if events >= largest * REMAINDER_SHARE]
    if not found:
        msg = "only the first batch ran, which warms up and doesn't count: give more events or smaller batches"
        raise BenchError(msg)
    return Run(
        events=sum(events for _, events in found),
        seconds=sum(each.durationMs["triggerExecution"] for each, _ in found) / 1000,
        state_bytes=folder_bytes(checkpoint / "state"),
        batches=len(found),
        cpu_seconds=round(meter.seconds("spark"), 2),
        state_rows=sum(each.numRowsTotal for each in found[-1][0].stateOperators),
        noise=meter.noise,
    )


def events_of(progress: StreamingQueryProgress, content: Content) -> int:
    """Return the number of events in a batch. Spark itself counts only records."""
    source = progress.sources[0]
    begin, end = (sum(map(content.events_to, _offsets(each))) for each in (source.startOffset, source.endOffset))
    return end - begin


def _offsets(content: str | None) -> Iterable[dict[str, int]]:
    """Return each topic's offsets by partition. The first batch has no start offsets."""
    by_topic: dict[str, dict[str, int]] = json.loads(content or "null") or {}
    return by_topic.values()


def folder_bytes(folder: Path) -> int:
    """Return the size of a folder's files in bytes. A running stream may delete files meanwhile."""
    total = 0
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):
            total += file.stat().st_size if file.is_file() else 0
    return total


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Return the median, the interpolated 99th percentile and the maximum of times in seconds."""
    cut = statistics.quantiles(values, n=100, method="inclusive")
    return {"p50_s": round(cut[49], 2), "p99_s": round(cut[98], 2), "max_s": round(max(values), 2)}


def machine() -> dict[str, object]:
    """Return a description of this machine and of the versions measured."""
    import deltalake
    import pyspark

    _, java = run_to_end([find_java(), "-version"], 60)
    cpu = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    kafka = re.search(r'name="kafka_2.13" rev="([^"]+)"', resources.files("jvm").joinpath("ivy.xml").read_text())
    return {
        "cpu": cpu[1] if cpu else "unknown",
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "load_average": os.getloadavg()[0],
        "python": platform.python_version(),
        "spark": pyspark.__version__,
        "deltalake": deltalake.__version__,
        "kafka": kafka[1] if kafka else "unknown",
        "java": java.splitlines()[0] if java else "unknown",
    }

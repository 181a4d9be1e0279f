"""What the benchmarks share: a session, the options of a stream, and how its query is measured."""

import gc
import json
import math
import os
import platform
import re
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from loads import BenchError, Content, Load
from noise import Meter
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.listener import StreamingQueryProgress
from rounds import Run

from broker.local.local_broker import LocalBroker
from jvm.jar_sets import jars_folder, spark_jars
from jvm.java import find_java
from jvm.process import run_to_end
from quota.config import QuotaConfig
from streaming.pipeline import StreamOptions
from streaming.session import stream_session
from streaming.triggers import AVAILABLE_NOW
from tables.delta import create_missing

QUOTA = 100.0
POLL_S = 0.1
REMAINDER_SHARE = 0.1
BENCH = Path(__file__).parent


def options(
    broker: LocalBroker, load: Load, content: Content, root: Path, batch: int, **changes: object
) -> StreamOptions:
    """Return the options of a stream that reads a load, so many events a batch."""
    given: dict[str, object] = {
        "topic": load.topic,
        "kafka_options": {"kafka.bootstrap.servers": broker.admin_servers},
        "tables": str(root / "tables"),
        "checkpoint": str(root / "checkpoint"),
        "trigger": AVAILABLE_NOW,
        "max_offsets_per_trigger": math.ceil(batch / content.events_per_record),
        "config": QuotaConfig(),
    }
    create_missing(str(root / "tables"))
    return StreamOptions(**(given | changes))


def session() -> SparkSession:
    """Return the job's own session; its Python workers can import the benchmarks, too."""
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(BENCH), os.environ.get("PYTHONPATH"))))
    os.environ["PYSPARK_SUBMIT_ARGS"] = "--conf spark.ui.showConsoleProgress=false pyspark-shell"
    spark = stream_session(spark_jars(jars_folder()))
    # A warning per new key and batch would be part of what is measured of `transformWithStateInPandas`.
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def settle(spark: SparkSession) -> None:
    """Collect what earlier runs have left in this process and in the JVM."""
    gc.collect()
    spark.sql("SELECT java_method('java.lang.System', 'gc')").collect()


def measure(query: StreamingQuery, checkpoint: Path, content: Content) -> Run:
    """Wait until a query has read all, and say how fast its batches were.

    Raises:
        BenchError: If there was nothing after the first batch.
    """
    while query.isActive and not any(each.numInputRows for each in query.recentProgress):
        query.awaitTermination(POLL_S)
    with Meter() as meter:
        query.awaitTermination()
    found = [(each, events_of(each, content)) for each in query.recentProgress if each.numInputRows][1:]
    largest = max((events for _, events in found), default=0)
    found = [(each, events) for each, events in found if events >= largest * REMAINDER_SHARE]
    if not found:
        msg = "the first batch, in which everything warms up, was the only one: give more events or smaller batches"
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
    """Return the events of a batch, of which Spark tells the records."""
    source = progress.sources[0]
    begin, end = (sum(map(content.events_to, _offsets(each))) for each in (source.startOffset, source.endOffset))
    return end - begin


def _offsets(told: str | None) -> Iterable[dict[str, int]]:
    """Return offsets by partition; the first batch begins at none."""
    by_topic: dict[str, dict[str, int]] = json.loads(told or "null") or {}
    return by_topic.values()


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) if folder.exists() else 0


def machine() -> dict[str, object]:
    """Return what the figures were measured on."""
    import deltalake
    import pyspark

    _, java = run_to_end([find_java(), "-version"], 60)
    return {
        "cpu": next((line.split(":")[1].strip() for line in _cpu_lines() if line.startswith("model name")), "unknown"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "load_average": os.getloadavg()[0],
        "python": platform.python_version(),
        "spark": pyspark.__version__,
        "deltalake": deltalake.__version__,
        "kafka": kafka_version(),
        "java": java.splitlines()[0] if java else "unknown",
    }


def _cpu_lines() -> list[str]:
    return Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()


def kafka_version() -> str:
    """Return the version of the embedded broker, as `jvm/ivy.xml` pins it."""
    found = re.search(r'name="kafka_2.13" rev="([^"]+)"', resources.files("jvm").joinpath("ivy.xml").read_text())
    return found[1] if found else "unknown"

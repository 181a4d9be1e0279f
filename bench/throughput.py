"""How fast is the whole job, against its own source and against other ways to do it?

    .venv/bin/python bench/throughput.py                                  # 1 M events, 2,000 principals, 5 rounds
    .venv/bin/python bench/throughput.py --events 2000000 --batch 500000 --principals 20,200,2000,20000
    .venv/bin/python bench/throughput.py --per-record 1                   # version 1: an event a record
    .venv/bin/python bench/throughput.py --events 1250000 --principals 20 --flood 1000000 --variants job,dedup

Every figure is a ratio within one run, whose variants take turns. Variants are the job (`job-each`: with a state for
each principal, `job-delta-spark`: with the other writer of tables) and those of `bench/peers.py`. The last line is
JSON.
"""

import argparse
import json
import tempfile
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

import bench_kit as kit
import peers
from deltalake import DeltaTable
from loads import BenchError, Content, Load, loaded_broker
from pyspark.sql import SparkSession
from rounds import MIN_ROUNDS, Run, interleaved, summary

from broker.local.local_broker import LocalBroker
from streaming import pipeline
from tables.quotas.quota_table import QuotaEntry, set_quota
from tables.store.path_tables import table_path

JOB_CHANGES: dict[str, dict[str, object]] = {
    "job": {},
    "job-each": {"state_buckets": 0},
    "job-delta-spark": {"sink": "delta-spark"},
}
VARIANTS = ("source", "source-default", "job", "job-each", "job-delta-spark", "dedup", "approximate", "set", "tws")
BASES = ("source", "source-default", "dedup", "set", "tws")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--principals", default="2000", help="one figure, or several split by commas")
    parser.add_argument("--flood", type=int, default=0, help="PIDs of one principal more, that come once each")
    parser.add_argument("--per-record", type=int, default=20, help="events, on average; 1: version 1 of the records")
    parser.add_argument("--batch", type=int, default=250_000, help="in events")
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS, help="that count")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    asked = parser.parse_args()
    loads = [Load(asked.events, int(each), asked.flood, asked.per_record) for each in asked.principals.split(",")]
    spark = kit.session()
    found = []
    for load in loads:
        with (
            tempfile.TemporaryDirectory(prefix="pid-quota-bench-") as root,
            loaded_broker(Path(root), load) as (broker, content),
        ):
            found.append(measured(spark, broker, load, content, Path(root), asked))
    print(json.dumps({"loads": found}))


def measured(
    spark: SparkSession, broker: LocalBroker, load: Load, content: Content, root: Path, asked: argparse.Namespace
) -> dict[str, object]:
    """Run all variants over one load, print what they were against one another, and return it."""
    of_record = {
        "events_per_record": round(content.events_per_record, 1),
        "bytes_per_event": round(content.bytes_per_event, 1),
    }
    print(f"{load.events:,} events, {load.principals:,} principals, {load.flood_pids:,} flood PIDs: {of_record}")
    variants = {
        name: partial(run, spark, broker, load, content, asked.batch, name) for name in asked.variants.split(",")
    }
    found = summary(interleaved(variants, asked.rounds, root, partial(kit.settle, spark)), BASES)
    for name, ratio in found["ratios"].items():
        if name.startswith("job"):
            print(f"  {name:28} {ratio['median']:>8.3f}  ({ratio['min']:.3f} to {ratio['max']:.3f})")
    of_load = {"events": load.events, "principals": load.principals, "flood_pids": load.flood_pids}
    return {**of_load, **of_record, "version": load.version, "batch": asked.batch, **found}


def run(
    spark: SparkSession, broker: LocalBroker, load: Load, content: Content, batch: int, name: str, place: Path
) -> Run:
    """Run one variant over a load in a fresh folder.

    Raises:
        BenchError: If it could not read the records.
    """
    options = kit.options(broker, load, content, place, batch, **JOB_CHANGES.get(name, {}))
    set_quota(options.tables, QuotaEntry(None, kit.QUOTA, datetime.now(timezone.utc), "bench"))
    start = pipeline.start if name in JOB_CHANGES else partial(peers.start, name, version=load.version)
    found = kit.measure(start(spark, options), Path(options.checkpoint), content)
    if DeltaTable(table_path(options.tables, "quarantined_events")).count():
        msg = f"{name} has quarantined events: it does not read records of version {load.version}"
        raise BenchError(msg)
    return found


if __name__ == "__main__":
    main()

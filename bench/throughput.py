"""Compares the whole job's rate with that of other solutions.

    .venv/bin/python bench/throughput.py                                  # 1 M events, 2,000 principals, 5 rounds
    .venv/bin/python bench/throughput.py --events 2000000 --batch 500000 --principals 20,200,2000,20000
    .venv/bin/python bench/throughput.py --per-record 1                   # one event per record
    .venv/bin/python bench/throughput.py --events 1250000 --principals 20 --flood 1000000 --variants job,dedup

All variants take turns in one run, so their ratios are comparable. Variants are the job, the job with other options
(`bench/kit.py`) and its peers (`bench/peers.py`). The last line is JSON.
"""

import argparse
import json
import tempfile
from functools import partial
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from bench import kit, peers
from bench.loads import BenchError, Content, Load, loaded_broker
from bench.rounds import MIN_ROUNDS, Run, interleaved, summary
from broker.local.local_broker import LocalBroker
from streaming import pipeline
from tables.store.path_tables import table_path

VARIANTS = (*kit.JOB_VARIANTS, *peers.PEERS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--principals", default="2000", help="one or several, separated by commas")
    parser.add_argument("--flood", type=int, default=0, help="PIDs of one more principal, one event each")
    parser.add_argument("--per-record", type=int, default=20, help="average events per record")
    parser.add_argument("--batch", type=int, default=250_000, help="in events")
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS, help="rounds that count")
    parser.add_argument("--variants", default=",".join(VARIANTS))
    asked = parser.parse_args()
    spark = kit.session()
    found = []
    for principals in map(int, asked.principals.split(",")):
        load = Load(asked.events, principals, asked.flood, asked.per_record)
        with (
            tempfile.TemporaryDirectory(prefix="pid-quota-bench-") as root,
            loaded_broker(Path(root), load) as (broker, content),
        ):
            found.append(measured(spark, broker, load, content, Path(root), asked))
    print(json.dumps({"loads": found}))


def measured(
    spark: SparkSession, broker: LocalBroker, load: Load, content: Content, root: Path, asked: argparse.Namespace
) -> dict[str, object]:
    """Run all variants over one load; print and return their ratios."""
    of_load = {
        "events": load.events,
        "principals": load.principals,
        "flood_pids": load.flood_pids,
        "events_per_record": round(content.events_per_record, 1),
        "bytes_per_event": round(content.bytes_per_event, 1),
        "batch": asked.batch,
    }
    print(of_load)
    variants = {
        name: partial(run, spark, broker, load, content, asked.batch, name) for name in asked.variants.split(",")
    }
    found = summary(interleaved(variants, asked.rounds, root, partial(kit.collect_garbage, spark)), peers.PEERS)
    for name, ratio in found["ratios"].items():
        if name.startswith("job"):
            print(f"  {name:28} {ratio['median']:>8.3f}  ({ratio['min']:.3f} to {ratio['max']:.3f})")
    return of_load | found


def run(
    spark: SparkSession, broker: LocalBroker, load: Load, content: Content, batch: int, name: str, folder: Path
) -> Run:
    """Run one variant over a load in a new folder.

    Raises:
        BenchError: If the variant could not read the records.
    """
    options = kit.stream_options(broker, load, content, folder, batch, name)
    start = pipeline.start if name in kit.JOB_VARIANTS else partial(peers.start, name)
    found = kit.measure(start(spark, options), Path(options.checkpoint), content)
    if DeltaTable(table_path(options.tables, "quarantined_events")).count():
        msg = f"{name} has quarantined events: it does not read the records of this load"
        raise BenchError(msg)
    return found


if __name__ == "__main__":
    main()

"""How fast is the whole job, against its own source and against other ways to do it?

    .venv/bin/python bench/throughput.py                                  # 1 M events, 2,000 principals, 3 rounds
    .venv/bin/python bench/throughput.py --events 2000000 --rounds 5      # the long form

Every figure is a ratio within one run, whose variants take turns.
"""

import argparse
import tempfile
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

import bench_kit as kit
import peers

from broker.jars import jars_folder, spark_jars
from jobs.quota_table import QuotaEntry, set_quota
from streaming import pipeline
from streaming.session import stream_session

VARIANTS = {"source": peers.source_only, "dedup": peers.dedup, "approximate": peers.approximate, "set": peers.exact_set}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--principals", type=int, default=2000)
    parser.add_argument("--flood", type=int, default=0, help="PIDs of one principal that come once each")
    parser.add_argument("--batch", type=int, default=250_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--variants", default="source,job,job-delta-spark,dedup,approximate,set")
    asked = parser.parse_args()
    load = kit.Load(asked.events, asked.principals, asked.flood)
    spark = stream_session(spark_jars(jars_folder()))
    names = asked.variants.split(",")
    with tempfile.TemporaryDirectory(prefix="pid-quota-bench-") as root, kit.loaded_broker(Path(root), load) as broker:

        def run(name: str, place: Path) -> kit.Run:
            sink = "delta-spark" if name.endswith("delta-spark") else None
            options = kit.options(broker, load, place, asked.batch, sink=sink)
            if not name.startswith("job"):
                return kit.measure(VARIANTS[name](spark, options), Path(options.checkpoint))
            set_quota(options.tables, QuotaEntry(None, kit.QUOTA, datetime.now(timezone.utc), "bench"))
            return kit.measure(pipeline.start(spark, options), Path(options.checkpoint))

        runs = kit.interleaved({name: partial(run, name) for name in names}, asked.rounds, Path(root))
    print(f"{load.events:,} events, {load.principals:,} principals, {load.flood_pids:,} flood PIDs")
    for name in names:
        for base in ("source", "dedup"):
            if base in names and name != base:
                print(f"  {name} / {base}: {kit.ratios(runs, name, base)}")
    print(kit.machine(spark))


if __name__ == "__main__":
    main()

"""What do the parts cost that no batch shows alone: the driver's rows, the roster, ledgers? CPU time and bytes.

    .venv/bin/python bench/size_parts.py

Neither Spark nor Kafka runs. The driver's rows are those of as many principals, collected, decoded and appended to a
real table; the roster is the file of tracked principals. The last line is JSON, with medians of the rounds.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from quota.config import QuotaConfig
from quota.limits import Limit
from state.events import CHARGED, LEARNING, Deployment, Events
from state.ledger import Ledger
from streaming.checkpoint.tracked_principals import TrackedPrincipals, code_of
from streaming.operator.ledger_operator import table_bodies
from streaming.operator.rows import by_kind, pack, table_rows, unpack_rows
from tables.store.path_tables import create_missing, table_path

BEGIN_MS = 1_790_000_000_000 // 900_000 * 900_000
METRICS = "producer_id_metrics"
UNLIMITED_HERE = Limit(1e9, "user")
SIZES = (1, 10, 100, 1_000, 10_000)
BATCHES = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--principals", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    found = rows_of_the_driver(asked) | roster(asked) | ledgers(asked.rounds)
    for name, value in found.items():
        print(f"  {name:34} {value}")
    print(json.dumps(vars(asked) | {"figures": found}))


def rows_of_the_driver(asked: argparse.Namespace) -> dict[str, float]:
    """Return what a metrics row costs the driver, and its bytes: collected, and in the table."""
    packed: list[bytes] = []
    for number in range(asked.principals):
        ledger = Ledger(f"User:app-{number}", Deployment(QuotaConfig(), salt=7))
        pids = range(number * 10, number * 10 + 10)
        packed.append(pack(table_bodies(ledger.process(events(pids, BEGIN_MS + number), UNLIMITED_HERE)))["packed"][0])
    count, spent = 0, []
    with tempfile.TemporaryDirectory(prefix="pid-quota-rows-") as folder:
        create_missing(folder)
        for batch in range(BATCHES):
            begin = time.process_time()
            bodies = by_kind(unpack_rows(packed))[METRICS]
            write_deltalake(table_path(folder, METRICS), table_rows(bodies, METRICS, batch), mode="append")
            spent.append(time.process_time() - begin)
            count = len(bodies)
        added = pa.table(DeltaTable(table_path(folder, METRICS)).get_add_actions(flatten=True)).to_pydict()
    return {
        "row_us": round(statistics.median(spent) / count * 1e6, 2),
        "row_collected_bytes": round(sum(map(len, packed)) / count, 1),
        "row_table_bytes": round(sum(added["size_bytes"]) / sum(added["num_records"]), 1),
    }


def roster(asked: argparse.Namespace) -> dict[str, float]:
    """Return what a tracked principal costs the driver in a batch that changes the roster, and each task."""
    names = [f"User:app-{number}" for number in range(asked.principals)]
    full = TrackedPrincipals(np.sort(np.fromiter(map(code_of, names), np.int64)).tobytes())
    change = cpu_us(lambda: full.changed([code_of("User:new")], [], 0), asked.rounds) / asked.principals
    # A task looks up those of its rows.
    look = cpu_us(lambda: full.holds(names), asked.rounds) / asked.principals
    return {
        "roster_change_us": round(change, 4),
        "roster_look_us": round(look, 3),
        "roster_bytes": round(len(full.codes) / asked.principals, 1),
    }


def ledgers(rounds: int) -> dict[str, float]:
    """Return bytes of a ledger whose PIDs are used all the time, and the CPU time of events on it."""
    sizes = {size: len(filled(size).to_bytes()) for size in SIZES}
    slope, base = np.polyfit(list(sizes), list(sizes.values()), 1, w=1 / np.array(list(sizes.values())))
    many = events(range(10_000), BEGIN_MS, LEARNING)
    new = cpu_us(lambda: empty_ledger().process(many, UNLIMITED_HERE), rounds) / len(many.pids)
    return {
        "ledger_bytes": round(float(base), 1),
        "ledger_pid_bytes": round(float(slope), 2),
        "new_pid_us": round(new, 2),
        **{f"ledger_of_{size}_bytes": content for size, content in sizes.items()},
    }


def empty_ledger() -> Ledger:
    return Ledger("User:a", Deployment(QuotaConfig(), salt=7))


def filled(size: int) -> Ledger:
    """Return a ledger after two hours in which so many PIDs came every five minutes."""
    ledger = empty_ledger()
    for minute in range(0, 120, 5):
        ledger.process(events(range(size), BEGIN_MS + minute * 60_000, LEARNING), UNLIMITED_HERE)
    return ledger


def events(pids: range, now_ms: int, kind: int = CHARGED) -> Events:
    size = len(pids)
    return Events(list(pids), [now_ms] * size, [("app", "")] * size, [kind] * size, [-1] * size)


def cpu_us(work: Callable[[], object], rounds: int) -> float:
    """Return the median CPU time of some rounds, in microseconds."""
    spent = []
    for _ in range(rounds):
        begin = time.process_time_ns()
        work()
        spent.append((time.process_time_ns() - begin) / 1000)
    return statistics.median(spent)


if __name__ == "__main__":
    main()

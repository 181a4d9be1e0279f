"""Do the tables stay small? A day of batches in fast-forward, with upkeep at its interval.

    .venv/bin/python bench/small_files.py                                  # a day of 5 s batches, upkeep each 10 min
    .venv/bin/python bench/small_files.py --hours 2 --maintain-minutes 60  # what a longer interval leaves

Every batch is appended by `deltalake`, numbered and marked as the stream's are, and its files are dated in a simulated
day that ends now: retention, vacuum and log cleanup see a day. The time of `pid-quota sql` is that of a whole process,
at the worst moment: just before upkeep. The last line is JSON.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from jvm.process import run_to_end
from tables.delta import TABLES, create_missing, open_table, table_path
from tables.upkeep import UpkeepPlan, keep_up

BATCH_S = 5
BATCHES_PER_MINUTE = 60 // BATCH_S
PRINCIPALS = 200
OFFENDERS = 3
BROKERS = 3
QUERY = "TABLE current_throttles"
QUERY_S = 60.0
QUERIES = 9

METRICS = "producer_id_metrics"
DECISIONS = "throttle_decisions"
ACTIONS = "enforcement_actions"
TAPS = "tap_status"
QUARANTINE = "quarantined_events"


class Day:
    """The tables of a simulated day, and what it costs to write and to keep them up."""

    def __init__(self, tables: Path, begin: datetime) -> None:
        create_missing(str(tables))
        self.tables, self.now = tables, begin
        self.open = {name: open_table(str(tables), name) for name in TABLES}
        self.seen: dict[str, set[str]] = defaultdict(set)
        self.commits: Counter[str] = Counter()
        self.most_files: Counter[str] = Counter()
        self.most_log_files: Counter[str] = Counter()
        self.append_ms: list[float] = []
        self.upkeep_s: list[float] = []

    def batch(self, batch_id: int) -> None:
        """Write what a batch has to say."""
        for name, rows in batch_rows(batch_id, self.now):
            begin = time.perf_counter()
            mark = json.dumps({"stream_id": "bench", "batch_id": batch_id, "ends": {"produce-events": {"0": batch_id}}})
            number = [Transaction(f"bench/{name}", batch_id)]
            properties = CommitProperties({"userMetadata": mark}, app_transactions=number)
            table = pa.Table.from_pylist(rows, schema=TABLES[name].schema)
            write_deltalake(self.open[name], table, mode="append", commit_properties=properties)
            self.append_ms.append((time.perf_counter() - begin) * 1000)
            self.commits[name] += 1
            self._date_newest(name)
        self.now += timedelta(seconds=BATCH_S)

    def keep_up(self, plan: UpkeepPlan) -> None:
        """Count files at the worst moment, and keep all tables up."""
        self.count()
        begin = time.perf_counter()
        for spec in TABLES.values():
            keep_up(str(self.tables), spec, plan, self.now)
        self.upkeep_s.append(time.perf_counter() - begin)
        self.open = {name: open_table(str(self.tables), name) for name in TABLES}
        for name in TABLES:
            self._date_new(name)

    def count(self) -> None:
        for name, table in self.open.items():
            self.most_files[name] = max(self.most_files[name], len(table.file_uris()))
            log = sum(1 for _ in Path(self.tables, name, "_delta_log").iterdir())
            self.most_log_files[name] = max(self.most_log_files[name], log)

    def _date_newest(self, name: str) -> None:
        log = Path(self.tables, name, "_delta_log", f"{self.open[name].version():020d}.json")
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        self._date(log, *(Path(self.tables, name, action["add"]["path"]) for action in actions if "add" in action))

    def _date_new(self, name: str) -> None:
        folder = Path(self.tables, name)
        self._date(*(path for path in folder.rglob("*") if path.stat().st_mtime > self.now.timestamp() + BATCH_S))

    def _date(self, *paths: Path) -> None:
        for path in paths:
            os.utime(path, (self.now.timestamp(), self.now.timestamp()))


def batch_rows(batch_id: int, now: datetime) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the rows of a batch by table, as many as a quiet cluster with a few offenders makes."""
    slot = batch_id % BATCHES_PER_MINUTE
    minute = batch_id // BATCHES_PER_MINUTE
    if slot < OFFENDERS:
        yield DECISIONS, [decision(slot, batch_id, now)]
    # Each principal has a row per minute, in the batch in which its interval ends; offenders in each batch.
    names = [*range(slot, PRINCIPALS, BATCHES_PER_MINUTE), *range(OFFENDERS)]
    yield METRICS, [metric(number, batch_id, now) for number in names]
    if batch_id % 60 == 0:
        yield QUARANTINE, [bad_record(batch_id, now)]
    if batch_id % 6 == 0:
        yield TAPS, [report(broker, batch_id, now) for broker in range(BROKERS)]
    if slot == 1 and minute % 30 < 2:
        yield ACTIONS, [action(minute, state, now) for state in (("applying", "in_force"), ("restored",))[minute % 2]]


def metric(number: int, batch_id: int, now: datetime) -> dict[str, Any]:
    offender = number < OFFENDERS
    return {
        "principal": f"User:app-{number}",
        "window_end": now.replace(second=0, microsecond=0) + timedelta(minutes=1),
        "as_of": now,
        "rate": 1.5 + number + batch_id % 7,
        "tokens": -1.0 if offender else 90.0 + batch_id % 11,
        "throttle_time_ms": 36_000 if offender else 0,
        "throttle_time_avg_ms": 1000.0,
        "new_pids_window": 200 if offender else 3,
        "quota": 100.0,
        "quota_source": "default",
        "admitted_pids": batch_id % 5,
        "refused_pids": batch_id % 50 if offender else 0,
        "late_pids": 0,
        "active_pids": 100 + batch_id % 13,
        "layers": 5,
        "state_bytes": 2000 + batch_id % 300,
        "phase": "enforcing",
        "saturated": False,
        "batch_id": batch_id,
    }


def decision(number: int, batch_id: int, now: datetime) -> dict[str, Any]:
    return {
        "decision_id": f"{number}-{batch_id}",
        "principal": f"User:app-{number}",
        "action": "THROTTLE",
        "decided_at": now,
        "throttle_time_ms": 60_000,
        "throttled_until": now + timedelta(seconds=75),
        "tokens": -1.0,
        "rate": 200.0,
        "quota": 100.0,
        "quota_source": "default",
        "quota_updated_at": now,
        "refused_pids": batch_id % 500,
        "sample_pids": list(range(batch_id, batch_id + 10)),
        "client_ids": [(f"client-{client}", client) for client in range(8)],
        "addresses": [(f"10.0.0.{client}", client) for client in range(8)],
        "batch_id": batch_id,
    }


def bad_record(batch_id: int, now: datetime) -> dict[str, Any]:
    place = {"topic": "produce-events", "partition": 0, "offset": batch_id, "record_timestamp": now}
    return {"value": b"{" * 100, "reason": "is no JSON object", "batch_id": batch_id, **place}


def report(broker: int, batch_id: int, now: datetime) -> dict[str, Any]:
    counts = {"lines": batch_id * 50, "events": batch_id * 20, "behind_bytes": 0}
    times = {"seen_at": now, "reported_at": now, "newest_line_at": now, "problem": None, "stopped": False}
    return (
        {"broker_id": broker, "host": "host", "tap_id": "tap", "source": "file", "batch_id": batch_id} | counts | times
    )


def action(minute: int, state: str, now: datetime) -> dict[str, Any]:
    lease = {
        "lease_id": f"lease-{minute // 2}",
        "lease_revision": minute % 2,
        "lever": "request_percentage",
        "new_value": 0.01,
    }
    return {"recorded_at": now, "sequence": minute, "state": state, "principal": "User:app-0", "until": now} | lease


def query_seconds(tables: Path) -> float:
    """Return the median time of a query by `pid-quota sql`, of the whole process."""
    taken = []
    for _ in range(QUERIES):
        begin = time.perf_counter()
        code, said = run_to_end([sys.executable, "-m", "jobs", "sql", QUERY, "--tables", str(tables)], QUERY_S)
        if code:
            raise SystemExit(said)
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def on_disk(folder: Path) -> dict[str, float]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {"files": len(files), "mib": round(sum(path.stat().st_size for path in files) / 2**20, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--maintain-minutes", type=int, default=10)
    options = parser.parse_args()
    batches = round(options.hours * 3600 / BATCH_S)
    every = options.maintain_minutes * BATCHES_PER_MINUTE
    plan = UpkeepPlan({name: spec.keep_days for name, spec in TABLES.items()}, vacuum_hours=168)
    with tempfile.TemporaryDirectory(prefix="pid-quota-small-files-") as folder:
        tables = Path(folder)
        day = Day(tables, datetime.now(timezone.utc) - timedelta(hours=options.hours))
        begin = time.monotonic()
        for batch_id in range(batches):
            day.batch(batch_id)
            # The last interval stays as it is: what is asked then meets the most files.
            if (batch_id + 1) % every == 0 and batch_id + 1 < batches:
                day.keep_up(plan)
                done = (batch_id + 1) / batches
                print(f"{done:.1%} after {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
        day.count()
        before_s = query_seconds(tables)
        day.keep_up(plan)
        show(day, tables, {"batches": batches, "query_worst_s": before_s, "query_after_s": query_seconds(tables)})


def show(day: Day, tables: Path, found: dict[str, Any]) -> None:
    """Print the figures of each table, and all as JSON."""
    found |= {"append_ms": statistics.median(day.append_ms), "upkeep_s": statistics.median(day.upkeep_s)}
    found |= {"upkeep_max_s": max(day.upkeep_s)}
    rounded = {name: round(value, 3) for name, value in found.items()}
    by_table = {}
    for name in TABLES:
        table = DeltaTable(table_path(str(tables), name))
        by_table[name] = {
            "commits": day.commits[name],
            "most_live_files": day.most_files[name],
            "live_files": len(table.file_uris()),
            "most_log_files": day.most_log_files[name],
            **on_disk(tables / name),
        }
        print(f"{name:20}", *(f"{what} {count:>8}" for what, count in by_table[name].items()))
    print(*(f"{name} {value}" for name, value in rounded.items()))
    print(json.dumps({**rounded, "tables": by_table}))


if __name__ == "__main__":
    main()

"""How soon enforcement acts and ends. What it does meanwhile: `bench/levers.py`.

    .venv/bin/python bench/enforce.py                  # a minute and a half
    .venv/bin/python bench/enforce.py --parts whole    # the way from a produce to the quota, with tap and stream

Everything runs on the embedded broker on this machine. Decisions are written by hand, except in the part `whole`.
"""

import argparse
import statistics
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from deltalake import DeltaTable, write_deltalake

from broker.kafka.holds import HoldBindings
from broker.kafka.quota_entity import QuotaEntity
from broker.kafka.quotas import ClientQuotas
from broker.kafka.topics import ensure_topics
from broker.local.local_broker import LocalBroker
from jvm.process import start_reading, start_watched
from tables.delta import TABLES, create_missing, table_path
from tables.quotas.quota_table import QuotaEntry, set_quota

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC = "orders"
LIMIT_S = 120.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="latency", help="of latency, whole")
    parser.add_argument("--trials", type=int, default=30, help="of the latencies")
    parser.add_argument("--trigger", default="1 second", help="of the stream in the part whole")
    parser.add_argument("--warm-up", type=float, default=60.0, help="seconds of the part whole that are not counted")
    parser.add_argument("--lever", default="request_percentage", help="of the part whole; hold needs a JDK")
    options = parser.parse_args()
    parts = {
        "latency": lambda: latency(options.trials),
        "whole": lambda: whole(options.trials, options.lever, options.trigger, options.warm_up),
    }
    for part in options.parts.split(","):
        parts[part]()


# From a row of throttle_decisions to the quota


def latency(trials: int) -> None:
    with world() as (broker, tables), enforcer(broker, tables), quotas_of(broker) as quotas:
        taken_ms, late_ms = [], []
        for trial in range(trials):
            entity = QuotaEntity(f"user-{trial}")
            # Out of step with the enforcer's looks at the table.
            time.sleep(0.137 * (trial % 7))
            written = decide(tables, f"User:{entity.user}", 2.0)
            wait(lambda entity=entity: quotas.describe(entity))
            taken_ms.append(1000 * (time.time() - written.timestamp()))
            wait(lambda entity=entity: not quotas.describe(entity))
            late_ms.append(1000 * (time.time() - written.timestamp() - 2.0))
    report("decision written -> quota live, ms", taken_ms)
    report("lease due -> previous quota live, ms", late_ms)


# The whole way


def whole(trials: int, lever: str, trigger: str, warm_up_s: float) -> None:
    """Each trial is another user, who makes a producer per message until the broker has a quota or hold for her.

    The JVM of a stream that has just begun compiles: those of its first minute are reported on their own.
    """
    # A trial takes two seconds at least.
    users = {f"m{trial}": "secret" for trial in range(trials + round(warm_up_s / 2))}
    cold: list[float] = []
    stages: dict[str, list[float]] = {
        "over quota -> decision written": [],
        "decision -> quota": [],
        "over quota -> quota": [],
    }
    with world(users, lever) as (broker, tables), levers_of(broker, lever) as quotas:
        for name in users:
            set_quota(str(tables), QuotaEntry(name, 3, datetime.now(timezone.utc), "bench"))
        # The stream wants them when it starts, the tap may still be starting then.
        ensure_topics(broker.admin_config())
        log, checkpoint = broker.log_file, tables.parent / "checkpoint"
        with (
            job(
                tables.parent,
                "tap",
                "--log-file",
                log,
                "--broker-id",
                1,
                "--bootstrap-servers",
                broker.admin_servers,
                "--learn-seconds",
                0,
            ),
            job(
                tables.parent,
                "stream",
                "--bootstrap-servers",
                broker.admin_servers,
                "--tables",
                tables,
                "--checkpoint",
                checkpoint,
                "--learn-seconds",
                0,
                "--trigger",
                trigger,
            ),
            enforcer(broker, tables, "--max-principals", 1000, "--max-entities", 1000, "--lever", lever),
        ):
            warm_s = 0.0
            for name in users:
                if len(stages["over quota -> quota"]) == trials:
                    break
                over, live = provoke(broker, quotas, name)
                row = first_decision(tables, name)
                # From the first decision on the stream runs.
                warm_s = warm_s or live + warm_up_s
                if over < warm_s:
                    cold.append(live - over)
                else:
                    stages["over quota -> decision written"].append(row - over)
                    stages["decision -> quota"].append(live - row)
                    stages["over quota -> quota"].append(live - over)
    report(f"over quota -> quota in the first {warm_up_s:g} s, s", cold[1:], 2)
    for stage, taken in stages.items():
        report(f"{stage}, s", taken, 2)


def provoke(broker: LocalBroker, quotas: "ClientQuotas | HoldBindings", user: str) -> tuple[float, float]:
    """Times of the first produce over a quota of 3 (the fifth producer), and of the client quota or hold."""
    settings = {**broker.client_config(user), "client.id": f"{user}-app"}
    over, made, live = 0.0, 0, threading.Event()
    live_at = [0.0]

    def watch() -> None:
        try:
            # More often would take a core from what is measured.
            wait(lambda: is_live(quotas, user), pause_s=0.02)
            live_at[0] = time.time()
        finally:
            live.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    while not live.is_set():
        producer = Producer({**settings, "enable.idempotence": True, "log_level": 0})
        producer.produce(TOPIC, b"one order")
        # Under a hold it waits for its producer id.
        while producer.flush(0.5) and not live.is_set():
            pass
        made += 1
        if made == 5:
            over = time.time()
        live.wait(0.1)
    watcher.join()
    if not live_at[0]:
        raise TimeoutError
    return over, live_at[0]


def is_live(quotas: "ClientQuotas | HoldBindings", user: str) -> bool:
    if isinstance(quotas, HoldBindings):
        return bool(quotas.of_user(user))
    return bool(quotas.describe(QuotaEntity(user, f"{user}-app")))


def first_decision(tables: Path, user: str) -> float:
    """When the commit with this user's first decision was written, by the modification time of its file."""
    table = DeltaTable(table_path(str(tables), "throttle_decisions"))
    times = []
    for uri in table.file_uris():
        path = Path(uri.removeprefix("file://"))
        rows = pq.read_table(path, columns=["principal"]).column("principal").to_pylist()
        if f"User:{user}" in rows:
            times.append(path.stat().st_mtime)
    return min(times)


# Parts


@contextmanager
def world(users: "dict[str, str] | None" = None, lever: str = "") -> "Iterator[tuple[LocalBroker, Path]]":
    with tempfile.TemporaryDirectory() as folder:
        tables = Path(folder, "tables")
        create_missing(str(tables))
        all_users = {"alice": "alice-secret", "mallory": "mallory-secret", **(users or {})}
        with LocalBroker(Path(folder, "kafka"), all_users, holds=lever == "hold") as broker:
            admin = AdminClient(broker.admin_config())
            admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result()
            yield broker, tables


@contextmanager
def job(folder: Path, *arguments: object) -> "Iterator[None]":
    process = start_watched([sys.executable, "-m", "jobs", *map(str, arguments)], folder / f"{arguments[0]}.log")
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)
        process.stdin.close()


@contextmanager
def enforcer(broker: LocalBroker, tables: Path, *arguments: object) -> "Iterator[None]":
    command = [sys.executable, "-m", "jobs", "enforce", "--apply", "--bootstrap-servers", broker.admin_servers]
    process = start_reading([*command, "--tables", str(tables), *map(str, arguments)])
    for line in process.stdout:
        if "holding the lock" in line:
            break
    # Nobody reads on, and it must not wait for that.
    drain = threading.Thread(target=process.stdout.read)
    drain.start()
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)
        drain.join()
        process.stdout.close()
        process.stdin.close()


def quotas_of(broker: LocalBroker) -> ClientQuotas:
    return ClientQuotas({"bootstrap_servers": broker.admin_servers})


def levers_of(broker: LocalBroker, lever: str) -> "ClientQuotas | HoldBindings":
    return HoldBindings({"bootstrap_servers": broker.admin_servers}) if lever == "hold" else quotas_of(broker)


def decide(tables: Path, principal: str, seconds: float, **values: object) -> datetime:
    now = datetime.now(timezone.utc)
    row = dict.fromkeys(TABLES["throttle_decisions"].schema.names) | {
        "decision_id": f"{principal}/{now.timestamp()}",
        "principal": principal,
        "action": "THROTTLE",
        "decided_at": now,
        "throttled_until": now + timedelta(seconds=seconds),
        "refused_pids": 20,
        "client_ids": [("rdkafka", 20)],
    }
    rows = pa.Table.from_pylist([row | values], schema=TABLES["throttle_decisions"].schema)
    write_deltalake(table_path(str(tables), "throttle_decisions"), rows, mode="append")
    return now


def forget_decisions(tables: Path) -> None:
    DeltaTable(table_path(str(tables), "throttle_decisions")).delete()


def wait(condition, pause_s: float = 0.002) -> None:
    give_up_at = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > give_up_at:
            raise TimeoutError
        time.sleep(pause_s)


def percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def report(what: str, values: list[float], digits: int = 0) -> None:
    figures = {"p50": percentile(values, 50), "p99": percentile(values, 99), "max": max(values)}
    print(f"{what}: n={len(values)}", *(f"{name}={value:.{digits}f}" for name, value in figures.items()), flush=True)


if __name__ == "__main__":
    main()

"""Measures how soon enforcement acts, and how soon it ends.

    .venv/bin/python bench/enforce.py                               # takes a minute and a half
    .venv/bin/python bench/enforce.py --parts whole --lever hold    # from a request to the hold, with the stream

Everything runs on this machine, with the embedded broker. The part `latency` writes decisions itself; the part `whole`
also runs the stream. The last line is JSON.
"""

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from deltalake import DeltaTable, write_deltalake

from bench.kit import percentiles
from broker.kafka.holds import HoldBindings
from broker.kafka.quota_entity import QuotaEntity
from broker.kafka.quotas import ClientQuotas
from broker.local.local_broker import LocalBroker
from jobs.demo.processes import Child
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import set_quota
from tables.schema.specs import TABLES
from tables.store.path_tables import create_missing, table_path

TOPIC = "orders"
DECISIONS = "throttle_decisions"
LIMIT_S = 120.0
LEASE_S = 2.0
SHORTEST_TRIAL_S = 0.4
"""A client makes five producers, 0.1 s apart, before it is over its quota."""
LEVERS = ("request_percentage", "hold")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="latency", help="latency, whole or both, separated by a comma")
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--trigger", default="1 second", help="trigger of the stream in the part whole")
    parser.add_argument("--warm-up", type=float, default=60.0, help="first seconds of the part whole, reported apart")
    parser.add_argument("--lever", default="request_percentage", choices=LEVERS, help="lever of the part whole")
    asked = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    for part in asked.parts.split(","):
        taken = latency(asked.trials) if part == "latency" else whole(asked)
        for name, seconds in taken.items():
            found[name] = {"n": len(seconds), **(percentiles(seconds) if len(seconds) > 1 else {})}
            print(f"  {name}: {found[name]}", flush=True)
    print(json.dumps(vars(asked) | {"found": found}))


# From a row of throttle_decisions to the quota


def latency(trials: int) -> dict[str, list[float]]:
    """Return seconds from a decision to its live quota, and from the end of its lease to the previous quota."""
    set_s, restored_s = [], []
    with broker_and_tables({}) as (broker, tables), enforcer(broker, tables), lever_of(broker) as lever:
        for trial in range(trials):
            entity = QuotaEntity(f"user-{trial}")
            # Vary the time within the interval at which the enforcer reads the table.
            time.sleep(0.137 * (trial % 7))
            decided_s = decide(tables, f"User:{entity.user}")
            wait_until(partial(is_live, lever, entity))
            set_s.append(time.time() - decided_s)
            wait_until(partial(is_gone, lever, entity))
            restored_s.append(time.time() - decided_s - LEASE_S)
    return {"decision written -> quota live": set_s, "lease due -> previous quota live": restored_s}


def decide(tables: Path, principal: str) -> float:
    """Write a decision as the stream would; return its time."""
    now = datetime.now(timezone.utc)
    row = dict.fromkeys(TABLES[DECISIONS].schema.names) | {
        "decision_id": f"{principal}/{now.timestamp()}",
        "principal": principal,
        "action": "THROTTLE",
        "decided_at": now,
        "throttled_until": now + timedelta(seconds=LEASE_S),
        "refused_pids": 20,
        "client_ids": [("rdkafka", 20)],
    }
    rows = pa.Table.from_pylist([row], schema=TABLES[DECISIONS].schema)
    write_deltalake(table_path(str(tables), DECISIONS), rows, mode="append")
    return now.timestamp()


# From a produce to the quota or hold


def whole(asked: argparse.Namespace) -> dict[str, list[float]]:
    """Return the seconds of each stage from the request over the quota until the lever is in force.

    In each trial, a new user makes a producer per message until the broker has a quota or hold for this user. Trials of
    the warm-up are reported separately.
    """
    # Trials of the warm-up, and the first one, in which the stream starts.
    users = {f"m{trial}": "secret" for trial in range(asked.trials + 1 + round(asked.warm_up / SHORTEST_TRIAL_S))}
    cold: list[float] = []
    decided: list[float] = []
    enforced: list[float] = []
    with broker_and_tables(users, asked.lever) as (broker, tables), lever_of(broker, asked.lever) as lever:
        for name in users:
            set_quota(str(tables), QuotaEntry(name, 3, datetime.now(timezone.utc), "bench"))
        # The stream needs the plugin's topics at its start.
        broker.wait_for_plugin()
        folder, servers = tables.parent, ["--bootstrap-servers", broker.admin_servers]
        stream = ["-m", "jobs", "stream", *servers, "--tables", str(tables), "--trigger", asked.trigger]
        stream += ["--checkpoint", str(folder / "checkpoint")]
        bounds = ["--max-principals", "1000", "--max-entities", "1000", "--lever", asked.lever]
        with (
            Child("stream", stream, folder / "stream.log"),
            enforcer(broker, tables, *bounds),
        ):
            warm_s = 0.0
            for name in users:
                if len(decided) == asked.trials:
                    break
                over_s, live_s = provoke(broker, lever, name)
                # The first decision shows that the stream runs.
                warm_s = warm_s or live_s + asked.warm_up
                if over_s < warm_s:
                    cold.append(live_s - over_s)
                else:
                    written_s = first_decision(tables, name)
                    decided.append(written_s - over_s)
                    enforced.append(live_s - written_s)
    return {
        "over quota -> lever live, warm-up": cold[1:],
        "over quota -> decision written": decided,
        "decision -> lever live": enforced,
        "over quota -> lever live": [sum(each) for each in zip(decided, enforced, strict=True)],
    }


def provoke(broker: LocalBroker, lever: ClientQuotas | HoldBindings, user: str) -> tuple[float, float]:
    """Return when a user exceeded its quota of 3 (with its fifth producer), and when the lever was live."""
    settings = {**broker.client_config(user), "client.id": f"{user}-app", "enable.idempotence": True, "log_level": 0}
    over_s, made, live, live_at = 0.0, 0, threading.Event(), [0.0]

    def watch() -> None:
        try:
            # More frequent requests would take CPU from the measured processes.
            wait_until(partial(is_live, lever, QuotaEntity(user, f"{user}-app")), pause_s=0.02)
            live_at[0] = time.time()
        finally:
            live.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    while not live.is_set():
        producer = Producer(settings)
        producer.produce(TOPIC, b"one order")
        # During a hold the producer waits for its producer id.
        while producer.flush(0.5) and not live.is_set():
            pass
        made += 1
        if made == 5:
            over_s = time.time()
        live.wait(0.1)
    watcher.join()
    if not live_at[0]:
        raise TimeoutError
    return over_s, live_at[0]


def first_decision(tables: Path, user: str) -> float:
    """Return when a user's first decision was written, by the modification time of its file."""
    times = []
    for uri in DeltaTable(table_path(str(tables), DECISIONS)).file_uris():
        path = Path(uri.removeprefix("file://"))
        if f"User:{user}" in pq.read_table(path, columns=["principal"]).column("principal").to_pylist():
            times.append(path.stat().st_mtime)
    return min(times)


# Shared set-up


@contextmanager
def broker_and_tables(users: Mapping[str, str], lever: str = "") -> Iterator[tuple[LocalBroker, Path]]:
    with tempfile.TemporaryDirectory(prefix="pid-quota-enforce-") as folder:
        tables = Path(folder, "tables")
        create_missing(str(tables))
        with LocalBroker(Path(folder, "kafka"), dict(users), holds=lever == "hold") as broker:
            admin = AdminClient({**broker.admin_config()})
            admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result()
            yield broker, tables


@contextmanager
def enforcer(broker: LocalBroker, tables: Path, *more: str) -> Iterator[None]:
    """Run the enforcer. The block begins once the enforcer holds its lock."""
    arguments = ["-m", "jobs", "enforce", "--apply", "--bootstrap-servers", broker.admin_servers]
    log = tables.parent / "enforce.log"
    with Child("enforcer", [*arguments, "--tables", str(tables), *more], log):
        wait_until(lambda: "holding the lock" in log.read_text(encoding="utf-8"), pause_s=0.1)
        yield


def lever_of(broker: LocalBroker, lever: str = "") -> ClientQuotas | HoldBindings:
    settings = {"bootstrap_servers": broker.admin_servers}
    return HoldBindings(settings) if lever == "hold" else ClientQuotas(settings)


def is_live(lever: ClientQuotas | HoldBindings, entity: QuotaEntity) -> bool:
    return bool(lever.of_user(entity.user or "") if isinstance(lever, HoldBindings) else lever.describe(entity))


def is_gone(lever: ClientQuotas | HoldBindings, entity: QuotaEntity) -> bool:
    return not is_live(lever, entity)


def wait_until(condition: Callable[[], bool], pause_s: float = 0.002) -> None:
    give_up_at = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > give_up_at:
            raise TimeoutError
        time.sleep(pause_s)


if __name__ == "__main__":
    main()

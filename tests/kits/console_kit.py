"""Tables that fill every page of the console, and a console that serves them at a given time."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import uvicorn

from jobs.web.access import TokenAccess
from jobs.web.command import FRESH_S, application
from jobs.web.pages import ConsoleData
from tables.store.open import open_store
from tables.store.path_tables import create_missing
from tables.store.values import StreamSettings
from tests.kits.kip_kit import init
from tests.unit.jobs.table_rows import NOON, Row, append, broker_state, confirmed, decision, hold_fact, metrics

NOW = NOON + timedelta(seconds=20)
SCRIPT = "User:<script>alert(1)</script>"
Found = TypeVar("Found")


# A day in the life of a small cluster


def demo_tables(folder: str | Path, script: str = SCRIPT) -> str:
    """Mallory floods for two hours and is throttled, a principal has a hostile name, three brokers hold producers."""
    tables = str(folder)
    create_missing(tables)
    rng = np.random.default_rng(936)
    calm = {"User:alice": 3, "User:billing": 24, "User:checkout": 61, "User:orders-etl": 12, script: 17, "unknown": 1}
    rows = [row for name, level in calm.items() for row in _calm_metrics(name, level, rng)]
    append(tables, "producer_id_metrics", *rows, *_mallory_metrics(rng))
    odd = _decision(script, 30, 5, {"<b>bold</b>": 5}, {"<b>there</b>": 5})
    append(tables, "throttle_decisions", *_mallory_decisions(), odd)
    append(tables, "holds", *_holds("User:mallory"), _plan(script))
    append(tables, "producer_id_quotas", _quota(None, 100.0), _quota("mallory", 20.0), _quota("billing", 30.0))
    append(tables, "broker_status", _broker(1, 8), _broker(2, 9), _broker(3, 300))
    append(tables, "producer_occupancy", *_occupancy())
    append(tables, "producer_inits", *_inits())
    open_store(tables).write_settings(
        StreamSettings(bootstrap_servers="kafka-1.example.com:9092,kafka-2.example.com:9092")
    )
    return tables


LONG_NAMES = (
    "User:CN=payments-gateway.prod.eu-west-1.example.com,OU=platform,O=Example",
    "User:service-account-recommendation-training-nightly-batch",
    "User:inventoryreservationserviceofthesecondwarehouse",
)


def crowded_tables(folder: str | Path) -> str:
    """Write the same cluster with 50 principals, some with long names, which are throttled and on hold."""
    tables = demo_tables(folder)
    rng = np.random.default_rng(50)
    names = [*LONG_NAMES, *(f"User:service-{number:02}" for number in range(40))]
    append(tables, "producer_id_metrics", *(row for name in names for row in _calm_metrics(name, 9, rng)))
    append(
        tables,
        "throttle_decisions",
        *(_decision(each, 9, 12, {f"{each[5:]}-0": 12}, {"10.0.0.9": 12}) for each in LONG_NAMES),
    )
    append(tables, "holds", *(row for each in LONG_NAMES for row in _holds(each)))
    return tables


def _calm_metrics(name: str, level: int, rng: np.random.Generator) -> Iterator[Row]:
    window = rng.poisson(level, 24 * 12)
    for step, new in enumerate(window):
        end = NOON - timedelta(minutes=5 * (len(window) - 1 - step))
        admitted = int(rng.poisson(level / 12))
        yield _metrics(name, end, int(new), admitted, 0, 100.0 - new, active_pids=int(level * 4 + new))


def _mallory_metrics(rng: np.random.Generator) -> Iterator[Row]:
    tokens, window = 20.0, 0
    for step in range(24 * 12):
        end = NOON - timedelta(minutes=5 * (24 * 12 - 1 - step))
        since = step - (24 * 12 - 22)
        tried = int(rng.poisson(14)) if since >= 0 else int(rng.poisson(0.2))
        admitted = min(tried, max(0, int(tokens) + 1))
        tokens = min(20.0, tokens - admitted + 20 / 12)
        window = min(window + tried, 14 * 12) if since >= 0 else tried
        yield _metrics("User:mallory", end, window, admitted, tried - admitted, tokens, quota=20.0, quota_source="user")


def _metrics(principal: str, end: datetime, new: int, admitted: int, refused: int, tokens: float, **values: Any) -> Row:
    counts = {"admitted_pids": admitted, "refused_pids": refused, "new_pids_window": new, "active_pids": new * 2}
    sizes = {"rate": new / 10, "tokens": float(tokens), "layers": 5, "state_bytes": 900 + 12 * new, "batch_id": 1}
    return metrics(principal, end, **(counts | sizes | values))


def _mallory_decisions() -> Iterator[Row]:
    for number, minutes_ago in enumerate((99, 79, 59, 39, 19), start=1):
        addresses = {"10.0.0.7": 40 * number, "10.0.0.8": 7 * number}
        clients = {"rdkafka": 43 * number, "spark-7": 4 * number}
        yield _decision("User:mallory", minutes_ago, 47 * number, clients, addresses)


def _decision(
    principal: str, minutes_ago: int, refused: int, clients: dict[str, int], addresses: dict[str, int]
) -> Row:
    at = NOON - timedelta(minutes=minutes_ago)
    values = {
        "decision_id": f"{principal}/{minutes_ago}", "throttle_time_ms": 1_380_000, "tokens": -0.4, "rate": 3.0,
        "throttled_until": at + timedelta(minutes=23), "quota": 20.0, "quota_source": "user", "quota_updated_at": NOON,
        "refused_pids": refused, "sample_pids": [7001, 7002], "client_ids": list(clients.items()),
        "addresses": list(addresses.items()), "batch_id": 2_000 - minutes_ago,
    }  # fmt: skip
    return decision(principal, at, **values)


def _quota(name: str | None, rate: float) -> Row:
    return {
        "entity_type": "user", "entity_name": name, "producer_ids_rate": rate,
        "updated_at": NOON - timedelta(days=2), "updated_by": "ops",
    }  # fmt: skip


def _holds(principal: str) -> Iterator[Row]:
    """Two of three brokers hold a principal: the third does not report."""
    at, values = NOON - timedelta(minutes=3), {"until": NOON + timedelta(minutes=6), "decision_id": f"{principal}/19"}
    yield hold_fact("written", at, principal, reason="47 new producer ids refused", init_every_ms=540_000, **values)
    for broker_id in (1, 2):
        yield confirmed(broker_id, at, principal, held_requests=1_200 * broker_id, let_in=broker_id, **values)


def _plan(principal: str) -> Row:
    values = {"until": NOON + timedelta(minutes=6), "reason": "pid.quota.never", "decision_id": None}
    return hold_fact("left_out", NOON - timedelta(minutes=3), principal, **values)


def _broker(broker_id: int, seconds_ago: int) -> Row:
    return broker_state(broker_id, NOW - timedelta(seconds=seconds_ago), seen_at=NOW, events=5_000)


def _occupancy() -> Iterator[Row]:
    for hour in range(48):
        for broker_id in (1, 2, 3):
            for topic, owner, entries in (("orders", "User:mallory", 900), ("payments", "User:billing", 140)):
                grown = (48 - hour) * (9 - 2 * broker_id) if owner == "User:mallory" else hour % 5
                held = entries + grown
                led = held // 2 if broker_id == 1 else held // 4
                yield {
                    "swept_at": NOON - timedelta(hours=hour), "broker_id": broker_id, "topic": topic,
                    "principal": owner, "led_pids": led, "held_pids": held, "open_transactions": 0,
                    "idle_hours": [held - 23 * (held // 24), *[held // 24] * 23], "estimated_bytes": held * 250,
                    "expiration_ms": 86_400_000, "missing_replicas": 0,
                }  # fmt: skip


def _inits() -> Iterator[Row]:
    for number in range(240):
        values = {"principal": "User:mallory", "client_id": "producer-1", "client_host": "10.0.0.7", "batch_id": 1}
        yield init(NOON - timedelta(seconds=20 * number), 7_000 + number, **values)


# A console


@contextlib.contextmanager
def serving(
    tables: str,
    access: TokenAccess | None = None,
    fresh_s: float = FRESH_S,
    *,
    now: datetime | None = None,
) -> Iterator[str]:
    """Serve a console over tables in a thread; gives its address without a slash at the end."""
    app = application(ConsoleData(tables), access or TokenAccess(), lambda: now or NOW, fresh_s)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            wait_for(lambda: server.started, "the console")
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)


def wait_for(condition: Callable[[], Found | None], what: str, within_s: float = 90) -> Found:
    """Wait until a condition gives something true, and return that."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    msg = f"{what} did not come within {within_s} s"
    raise TimeoutError(msg)

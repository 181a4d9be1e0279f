"""The console's occupancy page: totals per broker, and the effect of a broker's failure (KIP-854)."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any


def sweeps_over_time(sweeps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how many producer ids each broker held at each time, in columns. None means that a broker is missing."""
    times = sorted({row["at_ms"] for row in sweeps})
    held = {(row["at_ms"], row["broker_id"]): row["held_pids"] for row in sweeps}
    brokers = sorted({row["broker_id"] for row in sweeps})
    series = {str(broker_id): [held.get((at_ms, broker_id)) for at_ms in times] for broker_id in brokers}
    return {"sweeps": {"at_ms": times, "held_pids": series}}


def failover_bounds(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return totals per broker, and how many producer ids each survivor could lead at most after a broker fails.

    In each topic, a survivor takes over at most what the failed broker led, and at most what the survivor follows.
    `pid-quota occupancy` asks the brokers for the placement of partitions and is exact.
    """
    led: Counter[tuple[int, str]] = Counter()
    held: Counter[tuple[int, str]] = Counter()
    brokers: dict[int, dict[str, Any]] = {}
    for row in rows:
        key = (row["broker_id"], row["topic"])
        led[key] += row["led_pids"]
        held[key] += row["held_pids"]
        _add(brokers, row)
    deaths = [_death(dead, sorted(brokers), led, held) for dead in sorted(brokers)] if len(brokers) > 1 else []
    return {"brokers": [brokers[broker_id] for broker_id in sorted(brokers)], "failovers": deaths}


def _add(brokers: dict[int, dict[str, Any]], row: Mapping[str, Any]) -> None:
    counts = ("led_pids", "held_pids", "open_transactions", "estimated_bytes")
    empty = {"broker_id": row["broker_id"], "idle_hours": []} | dict.fromkeys(counts, 0)
    sums = brokers.setdefault(row["broker_id"], empty)
    sums["idle_hours"] = [sum(both) for both in zip_longest(sums["idle_hours"], row["idle_hours"] or (), fillvalue=0)]
    for name in counts:
        sums[name] += row[name]
    for name in ("expiration_ms", "missing_replicas", "swept_at", "age_seconds"):
        sums[name] = row[name]


def _death(
    dead: int, brokers: Iterable[int], led: Counter[tuple[int, str]], held: Counter[tuple[int, str]]
) -> dict[str, Any]:
    topics = {topic: count for (broker_id, topic), count in led.items() if broker_id == dead and count}
    survivors = []
    for broker_id in brokers:
        if broker_id != dead:
            before = sum(count for (owner, _), count in led.items() if owner == broker_id)
            gains = (min(count, held[broker_id, topic] - led[broker_id, topic]) for topic, count in topics.items())
            survivors.append({"broker_id": broker_id, "led_before": before, "led_at_most": before + sum(gains)})
    return {"dead": dead, "led_pids": sum(topics.values()), "survivors": survivors}

"""Diagnoses a table of client patterns with known causes, from the tables alone."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.lifecycle.why import evidence_text
from lifecycle.churn import Churn
from lifecycle.churn_evidence import MIN_NEW_PIDS
from state.events import CHARGED, Deployment, Events
from state.hashing import hash_pids
from state.pid_uses import NO_USES, PidUse, PidUses, observed
from tables.query.churn_clients import diagnosis_of
from tables.query.sql_query import query
from tests.kits.kip_kit import ago, append_kip_tables, init, now
from tests.unit.jobs.table_rows import Row, append, metrics

HOUR = 3600.0
DAY = 24 * HOUR
REPEAT_S = 30.0
FIXED_MS = 1_790_000_333_456
CAPPED_BACKOFF = [660.0 + 64 - 2.0**number for number in range(7)]
"""A supervisor's waits of 1 to 32 s, as in the first minute; then each lasts a minute."""


def now_ms() -> int:
    return round(now().timestamp() * 1000)


@dataclass(frozen=True)
class Request:
    """A producer id that a client got, `at_s` seconds ago, and last used `last_s` seconds ago."""

    at_s: float
    last_s: float
    host: str = "10.0.0.1"
    client_id: str = "app"
    transactional_id: str | None = None
    epoch: int = 0
    pid: int | None = None
    own_pid: int | None = None
    is_asked: bool = True


@dataclass(frozen=True)
class Pattern:
    """A client of a known cause."""

    name: str
    cause: Churn
    requests: tuple[Request, ...]


def deploys(times: Iterable[float], pods: int, hosts: int = 1, transactional: bool = False) -> Iterator[Request]:
    """Each deploy replaces all pods; the last ones are in use."""
    begins = sorted(times, reverse=True)
    for number, at in enumerate(begins):
        end = begins[number + 1] if number + 1 < len(begins) else 0.0
        for pod in range(pods):
            name = f"app-{number}-{pod}" if transactional else None
            yield Request(at - pod, max(1.0, end - pod - 2), f"10.0.0.{pod % hosts}", transactional_id=name)


def used_for(times: Iterable[float], seconds: float, **values: Any) -> Iterator[Request]:
    return (Request(at, max(0.5, at - seconds), **values) for at in times)


def fleet(times: Iterable[float], seconds: float) -> Iterator[Request]:
    return (Request(at, max(0.5, at - seconds), f"10.0.1.{n}") for n, at in enumerate(times))


def numbered(times: Iterable[float], seconds: float) -> Iterator[Request]:
    return (Request(at, max(0.5, at - seconds), client_id=f"producer-{n}") for n, at in enumerate(times))


def named(times: Iterable[float], seconds: float, each: int = 1, client_id: str = "app") -> Iterator[Request]:
    for n, at in enumerate(times):
        for task in range(each):
            yield Request(at, max(0.5, at - seconds), client_id=client_id, transactional_id=f"sink-{n}-{task}")


def used_until(times: Iterable[float], end_s: float, **values: Any) -> Iterator[Request]:
    """Kept, and all silent since then."""
    return (Request(at, min(at, end_s), **values) for at in times)


def numbered_until(times: Iterable[float], end_s: float) -> Iterator[Request]:
    return (Request(at, min(at, end_s), client_id=f"producer-{n}") for n, at in enumerate(times))


def spread(times: Iterable[float], hosts: int, seconds: float) -> Iterator[Request]:
    return (Request(at, max(0.5, at - seconds), f"10.0.2.{n % hosts}") for n, at in enumerate(times))


def varying(times: Iterable[float], at_most_s: float) -> Iterator[Request]:
    rng = np.random.default_rng(3)
    return (Request(at, max(0.5, at - float(rng.uniform(0.1, 1)) * at_most_s)) for at in times)


def hexadecimal(times: Iterable[float], seconds: float) -> Iterator[Request]:
    for n, at in enumerate(times):
        yield Request(at, max(0.5, at - seconds), client_id=f"app-{n * 2654435761 % 2**32:08x}-out")


def pods(times: Iterable[float], seconds: float) -> Iterator[Request]:
    """Pods of a CronJob, each with an address and a client id of its own."""
    for n, at in enumerate(times):
        yield Request(
            at, max(0.5, at - seconds), f"10.1.{n // 250}.{n % 250}", f"job-{28_000_000 + n}-{'bcdfg'[n % 5]}x9z2"
        )


def leak_with_deploys(times: Iterable[float], gap_s: float) -> Iterator[Request]:
    """A process that leaks a producer now and then, and is replaced by each deploy."""
    begins = sorted(times, reverse=True)
    for number, begin in enumerate(begins):
        end = begins[number + 1] if number + 1 < len(begins) else 1.0
        yield from (Request(begin - gap_s * n, end) for n in range(int((begin - end) / gap_s)))


def java_pools(times: Iterable[float], pods: int, producers: int) -> Iterator[Request]:
    """Deploys of Java processes that open many producers when they start."""
    begins = sorted(times, reverse=True)
    for number, at in enumerate(begins):
        end = begins[number + 1] if number + 1 < len(begins) else 0.0
        for pod in range(pods):
            for n in range(producers):
                begin = at - 40 * pod - 0.1 * n
                yield Request(begin, max(1.0, end - 40 * pod), f"10.0.0.{pod}", f"producer-{n + 1}")


def pool(size: int, times: Iterable[float], hosts: int = 1) -> Iterator[Request]:
    """Transactional ids that are taken over again and again, at the cost of an epoch."""
    for epoch, at in enumerate(times):
        for task in range(size):
            yield Request(at - task, 1, f"10.0.0.{epoch % hosts}", "app", f"pool-{task}", epoch, 100 + task)


def steps(gap_s: float, count: int, until_s: float = 1.0) -> list[float]:
    return [until_s + gap_s * n for n in reversed(range(count))]


def at_random(gap_s: float, count: int, until_s: float = 3.0) -> list[float]:
    gaps = np.random.default_rng(7).exponential(gap_s, count)
    return [until_s + float(at) for at in np.cumsum(gaps)[::-1]]


def loops(replicas: int) -> list[float]:
    waits = np.cumsum([10, 20, 40, 80, 160, *[300] * 20])
    return sorted((7000.0 - 17 * each - float(wait) for each in range(replicas) for wait in waits), reverse=True)


def minutes_of(kind: str, hosts: int = 1) -> Iterator[Request]:
    """What `tests/kits/churn_kit.py` does for 205 s."""
    rng = np.random.default_rng(4)
    at: float
    for process in range(hosts):
        host, at, number = f"10.3.0.{process}", 205.0, 0
        while at > 1:
            gap, use = {
                "message": (1.2, 0.1),
                "batch": (float(rng.exponential(4.0)), 0.1),
                "numbered": (2.75, 0.1),
                "schedule": (8.0, 0.1),
                "crash": (5.4, 0.1),
                "java": (5.4, 0.1),
                "backoff": (3.3 + 3 * 2.0**number, 0.1),
                "oom": (0.0, float(rng.uniform(0.9, 9))),
                "leak": (2.5 * hosts, DAY),
                "javaleak": (6.0 * hosts, DAY),
                "flink": (4.3, 0.1),
            }[kind]
            client = {"numbered": f"producer-{number + 1}", "javaleak": f"producer-{number + 1}", "java": "producer-1"}
            name = f"{process}-{number}" if kind == "flink" else None
            yield Request(at, max(0.5, at - use), host, client.get(kind, "app"), name)
            at, number = at - (gap or use + 3.2), number + 1


def short_jobs(hosts: int) -> Iterator[Request]:
    for run in range(4):
        for process in range(hosts):
            for n in range(6):
                at = 200 - 60.5 * run - 0.05 * n
                yield Request(at, at - 0.1, f"10.3.0.{process}")


def short_deploys(hosts: int) -> Iterator[Request]:
    for turn in range(3):
        for pod in range(8):
            at = 204 - 70 * turn - 0.5 * pod
            yield Request(at, 0.5 if turn == 2 else at - 70, f"10.3.0.{pod % hosts}")


def connect_source(reconfigurations: int, tasks: int = 3) -> Iterator[Request]:
    """The leader fences each task's id, then the task takes it, on one of two workers (KIP-618)."""
    for epoch in range(reconfigurations):
        at = 40.0 * (reconfigurations - epoch)
        for task in range(tasks):
            fencer = "connector-worker-adminclient-orders"
            worker, name = f"10.4.0.{(epoch + task) % 2}", f"connect-orders-{task}"
            yield Request(at, 0.5, "10.4.0.9", fencer, name, 2 * epoch, 100 + task)
            yield Request(at - 2, 0.5, worker, f"connector-producer-orders-{task}", name, 2 * epoch + 1, 100 + task)


def pooled(subtasks: int, size: int, interval_s: float) -> Iterator[Request]:
    """A Flink sink with a pool of transactional ids per subtask."""
    count = int(min(3600, 120 * interval_s) / interval_s)
    for number in range(count):
        for task in range(subtasks):
            slot = number % size
            at, pid = interval_s * (count - number) + task / 50, 10 * task + slot
            yield Request(at, 0.5, f"10.5.0.{task % 4}", f"sink-{task}", f"sink-{task}-{slot}", number // size, pid)


def expired(ids: int, lives_on: bool = False) -> Iterator[Request]:
    """Transactional ids that come back after the coordinator has forgotten them: restarted, or with their own pids."""
    for turn, at in enumerate((5 * HOUR, 600.0)):
        for number in range(ids):
            begin = at - 3 * number
            yield Request(begin, begin - 60, client_id=f"billing-{number}", transactional_id=f"billing-{number}",
                          pid=100 * turn + number, own_pid=number if turn and lives_on else None)  # fmt: skip


def rotated(threads: int, every_s: float) -> Iterator[Request]:
    """Producers of a Streams application, which EndTxn gives new ids."""
    for thread in range(threads):
        client, name = f"app-StreamThread-{thread}-producer", f"app-{thread}"
        begins = steps(every_s, int(20 * HOUR / every_s), 60 + 7 * thread)
        for number, at in enumerate(begins):
            end = begins[number + 1] if number + 1 < len(begins) else 0.5
            yield Request(at, end, "10.6.0.1", client, name, is_asked=number == 0)


FOREVER = DAY
STREAMS = "orders-StreamThread-1-producer"
PATTERNS = [
    Pattern(name, cause, tuple(requests))
    for name, cause, requests in [
        ("deploys-hourly", Churn.DEPLOY, deploys(steps(HOUR, 20, 600), 20)),
        ("deploys-three-a-day", Churn.DEPLOY, deploys(steps(8 * HOUR, 3, HOUR), 20)),
        ("deploys-three-a-day-late", Churn.DEPLOY, deploys(steps(7 * HOUR, 3, 6 * HOUR), 20)),
        ("deploys-two-a-day", Churn.DEPLOY, deploys((18 * HOUR, 6 * HOUR), 30)),
        ("deploys-four-hosts", Churn.DEPLOY, deploys(steps(6 * HOUR, 4, HOUR), 40, hosts=4)),
        ("deploys-office", Churn.DEPLOY, deploys((9 * HOUR, 7 * HOUR, 5 * HOUR, 2 * HOUR), 12)),
        ("streams-three-deploys", Churn.DEPLOY, deploys(steps(8 * HOUR, 3, HOUR), 20, transactional=True)),
        ("streams-five-deploys", Churn.DEPLOY, deploys(steps(4 * HOUR, 5, HOUR), 12, transactional=True)),
        ("start", Churn.HEALTHY, used_for(steps(0.2, 40, 3000), FOREVER)),
        ("few", Churn.HEALTHY, used_for(steps(HOUR, 3), FOREVER)),
        ("flink-pool-of-3", Churn.HEALTHY, pool(3, steps(10, 300))),
        ("flink-pool-one-task", Churn.HEALTHY, pool(1, steps(10, 300))),
        ("debezium-six-restarts", Churn.HEALTHY, pool(1, steps(4 * HOUR, 6, HOUR))),
        ("debezium-restarts-at-once", Churn.HEALTHY, pool(1, steps(40, 7, HOUR))),
        ("streams-v1-rolling", Churn.HEALTHY, pool(4, steps(2 * HOUR, 8, HOUR), hosts=2)),
        ("fencing-war", Churn.FENCING_WAR, pool(1, steps(5, 40), hosts=2)),
        ("fencing-war-slow", Churn.FENCING_WAR, pool(1, steps(90, 40), hosts=2)),
        ("rolling-restart", Churn.SCALE_OUT, fleet(steps(30, 40, 4000), FOREVER)),
        ("autoscaling", Churn.SCALE_OUT, fleet(at_random(120, 40, 4000), FOREVER)),
        ("autoscaling-nat", Churn.SCALE_OUT, used_for(at_random(120, 40, 6000), FOREVER)),
        ("rollout-nat", Churn.SCALE_OUT, used_for(steps(5, 60, 4000), FOREVER)),
        ("nightly-200-nat", Churn.SCALE_OUT, used_for(steps(0.2, 200, 5 * HOUR), 8 * HOUR)),
        ("crash-loop-6-nat", Churn.RESTART_LOOP, used_for(loops(6), 8)),
        ("crash-backoff", Churn.RESTART_LOOP, used_for((4000 - 3.0 * 2**n for n in range(9)), 2)),
        ("crash-backoff-capped", Churn.RESTART_LOOP, used_for((*CAPPED_BACKOFF, *steps(60, 10)), 0.4)),
        ("crash-java", Churn.RESTART_LOOP, used_for(steps(7.13, 60), 5, client_id="producer-1")),
        ("leak-fast", Churn.LEAK, used_for(steps(2.5, 200), FOREVER)),
        ("leak-minute", Churn.LEAK, used_for(steps(61, 200), FOREVER)),
        ("leak-slow", Churn.LEAK, used_for(steps(900, 80), FOREVER)),
        # The job of each hour opens 20 producers, and all that are open write then.
        ("leak-cron", Churn.LEAK, (Request(at - n / 10, 1500) for at in steps(HOUR, 10, 1502) for n in range(20))),
        ("leak-java", Churn.LEAK, numbered(steps(6, 60), FOREVER)),
        ("leak-random", Churn.LEAK, used_for(at_random(30, 100), FOREVER)),
        ("message-fast", Churn.PER_MESSAGE, used_for(steps(0.4, 500), 0.1)),
        ("message-random", Churn.PER_MESSAGE, used_for(at_random(4, 200), 0.1)),
        ("message-java", Churn.PER_MESSAGE, numbered(steps(2.7, 80), 0.1)),
        ("message-schedule", Churn.PER_MESSAGE, used_for(steps(8, 60), 0.1)),
        ("message-serverless", Churn.PER_MESSAGE, fleet(steps(3, 100), 0.1)),
        ("flink-incrementing", Churn.NEW_TRANSACTIONAL_ID, named(steps(10, 200), 10)),
        ("flink-incrementing-3", Churn.NEW_TRANSACTIONAL_ID, named(steps(60, 100), 60, each=3)),
        ("uuid-per-batch", Churn.NEW_TRANSACTIONAL_ID, named(at_random(20, 100), 1)),
        # A leak that pauses overnight: nobody writes.
        ("leak-overnight", Churn.LEAK, used_until(steps(300, 100, 8 * HOUR), 8 * HOUR)),
        ("leak-overnight-java", Churn.LEAK, numbered_until(steps(300, 100, 8 * HOUR), 8 * HOUR)),
        ("leak-three-pods", Churn.LEAK, spread(steps(60, 200), 3, FOREVER)),
        ("leak-hexid-45", Churn.LEAK, hexadecimal(steps(80, 45), FOREVER)),
        ("leak-per-session", Churn.LEAK, used_for(at_random(200, 150), 900)),
        ("leak-used-once", Churn.LEAK, used_for(at_random(20, 150), 0.1)),
        ("leak-plus-deploys", Churn.LEAK, leak_with_deploys(steps(6 * HOUR, 4, HOUR), 300)),
        ("daily-deploy-40", Churn.DEPLOY, deploys([6 * HOUR], 40)),
        ("daily-deploy-500", Churn.DEPLOY, deploys([6 * HOUR], 500)),
        ("deploy-500-under-way", Churn.DEPLOY, used_for(steps(4, 500), FOREVER)),
        ("deploy-500-from-500", Churn.DEPLOY, deploys([6 * HOUR], 500, hosts=250)),
        ("deploys-java-pools", Churn.DEPLOY, java_pools(steps(6 * HOUR, 4, HOUR), pods=3, producers=25)),
        ("pool-on-demand", Churn.HEALTHY, numbered(at_random(600, 45), FOREVER)),
        ("steady-12pods", Churn.HEALTHY, fleet(steps(5, 12, 9 * HOUR), FOREVER)),
        ("steady-12pods-nat", Churn.HEALTHY, used_for(steps(5, 12, 9 * HOUR), FOREVER)),
        ("cron-hourly", Churn.HEALTHY, used_for(steps(HOUR, 23), 5)),
        ("cron-java", Churn.PER_MESSAGE, used_for(steps(300, 200), 2, client_id="producer-1")),
        ("cronjob-pods", Churn.PER_MESSAGE, pods(steps(300, 200), 2)),
        ("jvm-per-upload", Churn.PER_MESSAGE, used_for(at_random(90, 200), 3, client_id="producer-1")),
        (
            "kcat-hourly-300",
            Churn.PER_MESSAGE,
            (each for at in steps(HOUR, 20) for each in used_for(steps(1, 300, at), 0.1)),
        ),
        ("per-request-low", Churn.PER_MESSAGE, used_for(at_random(500, 120), 0.1)),
        (
            "spark-sink-evicted",
            Churn.PER_MESSAGE,
            (each for at in steps(900, 80) for each in used_for(steps(0.5, 8, at), 5)),
        ),
        ("pool-refresh-8h", Churn.PER_MESSAGE, deploys(steps(8 * HOUR, 3, HOUR), 10)),
        ("token-refresh-3h", Churn.PER_MESSAGE, deploys(steps(3 * HOUR, 8, HOUR), 6)),
        ("streams-crashloop-40", Churn.RESTART_LOOP, named(steps(60, 100), 30, 40, STREAMS)),
        ("streams-crashloop-backoff", Churn.RESTART_LOOP, named(loops(1), 30, 4, STREAMS)),
        (
            "lockstep-dbdown-8",
            Churn.RESTART_LOOP,
            (each for at in steps(35, 100) for each in used_for(steps(0.2, 8, at), 5)),
        ),
        ("oom-40min", Churn.RESTART_LOOP, varying(steps(2400, 35), 2300)),
        ("oom-20-pods", Churn.RESTART_LOOP, spread(at_random(120, 700), 20, 2000)),
        ("error-returns", Churn.RESTART_LOOP, used_for(at_random(30, 200), 20)),
        ("error", Churn.ON_ERROR, used_for(steps(3, 40), 1)),
        *(
            (f"minutes-{kind}-{hosts}", cause, minutes_of(kind, hosts))
            for hosts in (1, 4)
            for kind, cause in {
                "message": Churn.PER_MESSAGE,
                "batch": Churn.PER_MESSAGE,
                "numbered": Churn.PER_MESSAGE,
                "schedule": Churn.PER_MESSAGE,
                "crash": Churn.RESTART_LOOP,
                "java": Churn.RESTART_LOOP,
                "backoff": Churn.RESTART_LOOP,
                "oom": Churn.RESTART_LOOP,
                "leak": Churn.LEAK,
                "javaleak": Churn.LEAK,
                "flink": Churn.NEW_TRANSACTIONAL_ID,
            }.items()
        ),
        ("minutes-job-1", Churn.PER_MESSAGE, short_jobs(1)),
        ("minutes-job-4", Churn.PER_MESSAGE, short_jobs(4)),
        ("minutes-deploy-1", Churn.DEPLOY, short_deploys(1)),
        ("minutes-deploy-5", Churn.DEPLOY, short_deploys(5)),
        ("minutes-rollout", Churn.SCALE_OUT, used_for(steps(5, 20, 105), FOREVER)),
        ("minutes-start", Churn.HEALTHY, used_for(steps(0.2, 25, 200), FOREVER)),
        ("connect-source", Churn.HEALTHY, connect_source(8)),
        ("connect-source-twenty-tasks", Churn.HEALTHY, connect_source(5, 20)),
        ("expired-while-idle", Churn.EXPIRED_IDLE, expired(7)),
        ("expired-while-running", Churn.EXPIRED_IDLE, expired(7, lives_on=True)),
        ("rotated-hourly", Churn.ROTATION, rotated(20, 3300)),
        ("rotated-ten-minutes", Churn.ROTATION, rotated(3, 600)),
        *(
            (f"flink-pool-{subtasks}x{size}-{interval_s}s", Churn.HEALTHY, pooled(subtasks, size, interval_s))
            for subtasks in (1, 2, 4, 8, 16)
            for size in (1, 3, 5)
            for interval_s in (1, 10, 60)
        ),
    ]
]


def rows_of(pattern: Pattern, first: int) -> Iterator[Row]:
    for number, each in enumerate(pattern.requests):
        if not each.is_asked:
            continue
        values: dict[str, Any] = {"result_producer_epoch": each.epoch} if each.transactional_id else {}
        if pattern.cause is Churn.ON_ERROR:
            values |= {"producer_id": 5, "producer_epoch": 0}
        if each.own_pid is not None:
            values |= {"producer_id": first + each.own_pid, "producer_epoch": 0}
        yield init(
            ago(each.at_s),
            first + number if each.pid is None else first + each.pid,
            principal=f"User:{pattern.name}",
            client_id=each.client_id,
            client_host=each.host,
            transactional_id=each.transactional_id and f"{pattern.name}-{each.transactional_id}",
            **values,
        )


def uses_of(pattern: Pattern, first: int) -> Row:
    """Return the metrics row that the stream writes: a plugin reports a PID in use once in a repeat interval."""
    events = []
    for number, each in enumerate(pattern.requests):
        pid = first + (number if each.pid is None else each.pid)
        count = max(1, math.ceil((each.at_s - each.last_s) / REPEAT_S))
        events += [(each.at_s - REPEAT_S * use, pid, each.client_id) for use in range(count)]
    events.sort(reverse=True)
    pids = [pid for _, pid, _ in events]
    # Quanta begin at the same times in each run of the test.
    times_ms = [FIXED_MS - round(at_s * 1000) for at_s, _, _ in events]
    clients = [(client_id, "") for _, _, client_id in events]
    uses = observed(NO_USES, Events(pids, times_ms, clients, [CHARGED] * len(pids), hash_pids(pids, 0)), Deployment())
    later_ms, as_of = now_ms() - FIXED_MS, ago(events[-1][0])
    moved = {
        pid: PidUse(use.client_id, use.first_ms + later_ms, use.last_ms + later_ms) for pid, use in uses.pids.items()
    }
    uses = PidUses(uses.level, pids=moved)
    return metrics(f"User:{pattern.name}", as_of, as_of=as_of, **uses.row())


Evidence = Mapping[str, Mapping[str, Any]]


def evidence_of(patterns: Sequence[Pattern], tables: Path) -> Evidence:
    """Return each pattern's row of the view."""
    inits = [row for n, pattern in enumerate(patterns) for row in rows_of(pattern, 10_000 * n)]
    append_kip_tables(tables, inits=inits)
    append(tables, "producer_id_metrics", *(uses_of(pattern, 10_000 * n) for n, pattern in enumerate(patterns)))
    rows = query(str(tables), "TABLE principal_churn", now()).records()
    return {row["principal"].removeprefix("User:"): row for row in rows}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return evidence_of(PATTERNS, tmp_path_factory.mktemp("patterns"))


LOOK_ALIKES = {
    "daily-deploy-40": Churn.SCALE_OUT,
    "daily-deploy-500": Churn.SCALE_OUT,
    "deploy-500-from-500": Churn.SCALE_OUT,
    "deploy-500-under-way": Churn.LEAK,
    "error-returns": Churn.PER_MESSAGE,
    "leak-used-once": Churn.PER_MESSAGE,
    "pool-refresh-8h": Churn.DEPLOY,
    "steady-12pods-nat": Churn.SCALE_OUT,
    "token-refresh-3h": Churn.DEPLOY,
}
"""Patterns that brokers see exactly as they see another cause: that one is likely, theirs an alternative."""


def test_the_tables_alone_name_the_cause_of_thirty_eight_in_forty_and_no_other_cause(seen: Evidence) -> None:
    found = {each.name: diagnosis_of(seen[each.name]).kind for each in PATTERNS}
    meant = {each.name: LOOK_ALIKES.get(each.name, each.cause) for each in PATTERNS}

    untold = {name for name, kind in found.items() if kind is Churn.CANT_TELL}
    assert {name: kind.value for name, kind in found.items() if kind is not meant[name] and name not in untold} == {}
    assert len(untold) <= sum("flink-pool" not in name for name in found) * 2 / 40, untold


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda each: each.name)
def test_no_diagnosis_leaves_the_cause_out_or_names_it_as_the_only_one(pattern: Pattern, seen: Evidence) -> None:
    row = seen[pattern.name]
    for found in (diagnosis_of(row), diagnosis_of({**row, "lives": None})):
        assert pattern.cause in (found.kind, *found.could_be)
        assert found.could_be or found.unlikely or row["new_pids"] < MIN_NEW_PIDS


def test_requests_alone_name_no_wrong_cause(seen: Evidence) -> None:
    for pattern in PATTERNS:
        alone = diagnosis_of({**seen[pattern.name], "lives": None}).kind
        assert alone in (pattern.cause, Churn.CANT_TELL, LOOK_ALIKES.get(pattern.name)), pattern.name


def test_the_tables_don_t_say_that_ids_are_still_in_use(seen: Evidence) -> None:
    told = [evidence_text(row) for row in seen.values()]
    assert [text for text in told if "still in use" in text] == []
    assert any("100% in use when the client last wrote" in text for text in told)


def test_rotated_ids_come_with_their_transactional_ids(seen: Evidence) -> None:
    row = seen["rotated-hourly"]
    assert set(row["rotated_ids"]) <= {f"rotated-hourly-app-{thread}" for thread in range(20)}
    # The sample forgets the oldest ones.
    assert 60 < row["rotations"] < 500
    assert row["rotation_seconds"] == pytest.approx(3300, rel=0.3)
    assert "handed out by EndTxn" in evidence_text(row)


HELD_S = 300.0
PACE_S = 3.0


def held(name: str, cause: Churn, before: Iterable[float], used_s: float = 0.01) -> Pattern:
    """A client that is held `HELD_S` ago, and then gets a producer id from the brokers at their pace."""
    paced = [HELD_S - PACE_S * number for number in range(round(HELD_S / PACE_S))]
    return Pattern(name, cause, tuple(Request(at, at - used_s) for at in (*before, *paced)))


HELD = [
    held("held-flood", Churn.PER_MESSAGE, [HELD_S + 8 - 0.2 * number for number in range(40)]),
    held("held-crash-loop", Churn.RESTART_LOOP, [HELD_S + 129 - 2.0**number for number in range(8)]),
    held("held-at-once", Churn.PER_MESSAGE, [HELD_S + 0.5]),
]


def test_the_pace_of_a_hold_is_no_evidence_of_restarts(tmp_path: Path) -> None:
    begun = [
        {
            "recorded_at": ago(HELD_S - 1),
            "principal": f"User:{each.name}",
            "state": "in_force",
            "since": ago(HELD_S),
            "batch_id": 1,
        }
        for each in HELD
    ]
    append_kip_tables(tmp_path)
    append(tmp_path, "holds", *begun)

    seen = evidence_of(HELD, tmp_path)

    found = {each.name: diagnosis_of(seen[each.name]) for each in HELD}
    assert found["held-flood"].kind is Churn.PER_MESSAGE
    assert found["held-crash-loop"].kind is Churn.RESTART_LOOP
    assert found["held-at-once"].kind is not Churn.RESTART_LOOP
    assert all(each.cause in (found[each.name].kind, *found[each.name].could_be) for each in HELD)

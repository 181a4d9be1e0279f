"""Ten kinds of users through the real rules: the views' counts of their new producer ids, and the true numbers."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest

from quota.limits import UNLIMITED, Limit
from state.codec import decode
from state.events import CHARGED, Deployment, Events, MetricsRow
from state.hashing import hash_pid
from state.ledger import Ledger
from state.memory import Memory
from tables.query.sql_query import query
from tables.query.suggestions import suggestions
from tests.unit.jobs.table_rows import Row, append, metrics

HOUR = 3600
HOURS = 8
END = datetime(2026, 1, 15, 12, tzinfo=timezone.utc)
BEGIN_S = round(END.timestamp()) - HOURS * HOUR
Sent = list[tuple[float, int]]
"""When something is sent, in seconds after the begin, and by which producer."""


def tries(
    born_s: Iterable[float], *, every_s: float = 0.0, until_s: float = HOURS * HOUR, count: int = 1_000_000
) -> Sent:
    """When producers send: each from its birth on, at a pace, so often at most; pairs of time and producer."""
    found = []
    for pid, born in enumerate(born_s):
        times = [born] if not every_s else np.arange(born, until_s, every_s)[:count].tolist()
        found += [(at, pid) for at in times]
    return sorted(found)


def per_hour(count: int, hours: Iterable[int] = range(HOURS)) -> list[float]:
    return [hour * HOUR + number * HOUR / count for hour in hours for number in range(count)]


USERS = {
    "deploys of 20 an hour, no quota": (None, tries(per_hour(20), every_s=300, count=12)),
    "20 processes on a quota of 5": (5, tries([0.0] * 20, every_s=60)),
    "a new one each second on a quota of 100": (100, tries(per_hour(3600, range(3)))),
    "a new one each second, no quota": (None, tries(per_hour(1200))),
    "400 at once on a quota of 100, kept": (100, tries([HOUR * 1.5] * 400, every_s=120)),
    "40 restarts an hour on a quota of 50": (50, tries(per_hour(40), every_s=30, count=3)),
    "200 that live and nothing new": (100, tries([10.0] * 200, every_s=600)),
    "100 processes on a quota of 20": (20, tries([5.0] * 100, every_s=60)),
    "30 an hour that try for an hour on a quota of 10": (10, tries(per_hour(30), every_s=60, count=60)),
    "50 an hour that try three times on a quota of 10": (10, tries(per_hour(50), every_s=20, count=3)),
}


def rows_of(name: str, quota: float | None, sent: Sent) -> list[Row]:
    ledger = Ledger(f"User:{name}", Deployment())
    events = Events(
        [pid + 1 for _, pid in sent],
        [round((BEGIN_S + at) * 1000) for at, _ in sent],
        [("", "")] * len(sent),
        [CHARGED] * len(sent),
    )
    limit = UNLIMITED if quota is None else Limit(float(quota), "user")
    return [row_of(each) for each in ledger.process(events, limit).metrics]


def row_of(row: MetricsRow) -> Row:
    at = {
        name: datetime.fromtimestamp(getattr(row, f"{name}_ms") / 1000, timezone.utc)
        for name in ("window_end", "as_of")
    }
    names = ("new_pids_window", "admitted_pids", "refused_pids", "owed_pids", "phase")
    counts = {name: getattr(row, name) for name in names}
    return metrics(row.principal, **at, **counts)


def knows(ledger: Ledger, pid: int, at_ms: int) -> bool:
    """Whether a layer that is live at `at_ms` has the PID."""
    content, deployment = ledger.to_bytes(), Deployment()
    newest = Memory(deployment, decode(content), content).filter.find(hash_pid(pid, deployment.salt))
    quantum = deployment.timeline.quantum(deployment.timeline.tick(at_ms))
    return newest is not None and newest.number >= quantum - deployment.config.layer_count


def true_most(quota: float | None, sent: Sent) -> int:
    """Producers of the worst hour that were not let in in an hour before."""
    seen: defaultdict[int, set[int]] = defaultdict(set)
    known: set[int] = set()
    ledger = Ledger("User:x", Deployment())
    limit = UNLIMITED if quota is None else Limit(float(quota), "user")
    for at, pid in sent:
        hour = int(at // HOUR)
        if pid not in known:
            seen[hour].add(pid)
        time_ms = round((BEGIN_S + at) * 1000)
        ledger.process(Events([pid + 1], [time_ms], [("", "")], [CHARGED]), limit)
        if pid not in known and knows(ledger, pid + 1, time_ms):
            known.add(pid)
    return max(map(len, seen.values()))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("tables")
    for name, (quota, sent) in USERS.items():
        append(root, "producer_id_metrics", *rows_of(name, quota, sent))
    append(root, "throttle_decisions")
    return str(root)


@pytest.mark.parametrize("name", USERS)
def test_a_suggestion_stands_on_the_true_number_of_a_window(tables: str, name: str) -> None:
    quota, sent = USERS[name]
    found = {each.principal: each for each in suggestions(tables)}
    true = true_most(quota, sent)
    suggestion = found[f"User:{name}"]
    print(f"{name}: true {true}, suggested for {suggestion.most_pids}: {suggestion.allowance}")

    assert suggestion.most_pids == pytest.approx(true, rel=0.03)


@pytest.mark.parametrize("name", USERS)
def test_a_day_counts_each_producer_once(tables: str, name: str) -> None:
    _, sent = USERS[name]
    (row,) = [row for row in query(tables, "TABLE pid_budget", END).records() if row["principal"] == f"User:{name}"]
    true = len({pid for _, pid in sent})
    print(
        f"{name}: true {true}, found {row['new_pids']} ({row['refused_pids']} refused, {row['admitted_pids']} admitted)"
    )

    assert row["new_pids"] == pytest.approx(true, rel=0.03)


def test_producers_that_retry_after_longer_than_a_window_count_in_each_between_the_two_bounds(tmp_path: Path) -> None:
    append(tmp_path, "producer_id_metrics", *rows_of("slow", 5, tries([0.0] * 50, every_s=6000)))
    append(tmp_path, "throttle_decisions")

    (row,) = query(str(tmp_path), "TABLE new_pids_per_day", END).records()

    assert row["refused_pids_at_least"] < 50 < row["new_pids"]
    assert row["refused_pids_at_least"] <= row["refused_pids"] <= row["refused_pids_at_most"]

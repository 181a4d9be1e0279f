"""The look before a ledger is built: what it finds to change nothing changes nothing when it is applied."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.config import QuotaConfig
from quota.limits import UNLIMITED, Limit
from state.codec import decode
from state.events import CHARGED, LEARNING, Deployment, Events, Outcome
from state.ledger import Ledger
from state.noop_check import changes_nothing
from tests.kits.ledger_kit import events_at

NOW_MS = 1_790_000_000_000 // 900_000 * 900_000
TICK_MS, INTERVAL_MS, QUANTUM_MS = 10_000, 60_000, 900_000
DEPLOYMENT = Deployment(QuotaConfig(late_grace_seconds=30), salt=5)
QUANTA_IN_AN_INTERVAL = Deployment(QuotaConfig(late_grace_seconds=30, metrics_interval_seconds=3600), salt=5)
LIMIT, OTHER_LIMIT = Limit(5.0, "user", NOW_MS), Limit(5.0, "default", NOW_MS)
WITH_BURST = Limit(5.0, "user", NOW_MS, producer_ids_burst=50.0)

STEPS_MS = st.sampled_from([0, 500, TICK_MS, 3 * TICK_MS, INTERVAL_MS, QUANTUM_MS, 4 * QUANTUM_MS, -TICK_MS, -50_000])
EVENTS = st.lists(st.tuples(STEPS_MS, st.integers(0, 7), st.sampled_from([CHARGED, LEARNING])), min_size=1)
BATCHES = st.lists(
    st.tuples(EVENTS, st.sampled_from([LIMIT, LIMIT, LIMIT, OTHER_LIMIT, WITH_BURST, UNLIMITED])), max_size=12
)


def applied(stored: bytes | None, given_events: Events, limit: Limit, deployment: Deployment) -> Outcome:
    batch = Ledger("User:a", deployment, stored).batch(limit, given_events.timestamps_ms[0])
    batch.feed(given_events)
    return batch.end()


@pytest.mark.parametrize("deployment", [DEPLOYMENT, QUANTA_IN_AN_INTERVAL], ids=["usual", "quanta in an interval"])
@given(batches=BATCHES)
def test_a_ledger_that_looks_first_says_and_stores_what_one_that_applies_all_does(
    deployment: Deployment, batches: list[tuple[list[tuple[int, int, int]], Limit]]
) -> None:
    stored, at_ms = None, NOW_MS
    for drawn, limit in batches:
        times = []
        for step_ms, _, _ in drawn:
            at_ms += max(0, step_ms)
            times.append(at_ms + min(0, step_ms))
        batch = Events([pid for _, pid, _ in drawn], times, [("app", "")] * len(drawn), [kind for _, _, kind in drawn])
        # Once more, as most batches are: nothing but known PIDs.
        for again in (batch, events_at(at_ms, batch.pids)):
            looked = Ledger("User:a", deployment, stored).process(again, limit)
            assert looked == applied(stored, again, limit, deployment)
            stored = looked.content


@pytest.mark.parametrize(
    ("change", "pids", "at_ms", "limit", "expected"),
    [
        ("none", [1, 2, 1], 0, LIMIT, True),
        ("a later tick", [2], 5 * TICK_MS, LIMIT, True),
        ("a later interval", [2], INTERVAL_MS, LIMIT, False),
        ("a later quantum", [2], QUANTUM_MS, LIMIT, False),
        ("an earlier tick within the grace", [2], -3 * TICK_MS, LIMIT, True),
        ("a late event", [2], -4 * TICK_MS, LIMIT, False),
        ("an unseen PID", [1, 9], 0, LIMIT, False),
        ("another quota", [1], 0, OTHER_LIMIT, False),
        ("another burst", [1], 0, WITH_BURST, False),
        ("no quota", [1], 0, UNLIMITED, False),
    ],
)
def test_a_look_finds_what_changes_nothing(
    change: str, pids: list[int], at_ms: int, limit: Limit, expected: bool
) -> None:
    stored = Ledger("User:a", DEPLOYMENT).process(events_at(NOW_MS, [1, 2]), LIMIT).content

    assert changes_nothing(decode(stored), events_at(NOW_MS + at_ms, pids), limit, DEPLOYMENT) is expected, change

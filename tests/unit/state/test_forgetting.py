"""What is expired may be removed or kept: nothing that comes out afterwards tells the difference."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from quota.config import QuotaConfig
from quota.limits import UNLIMITED, Limit
from state.events import Deployment, Events, Outcome
from state.ledger import Ledger
from tests.kits.ledger_kit import events_at

START_MS = 1_790_000_000_000
HOUR_MS = 3_600_000
DEPLOYMENT = Deployment(QuotaConfig(), salt=3)
TEN = Limit(10.0, "user", START_MS)


def events(pids: list[int], at_ms: int) -> Events:
    return events_at(START_MS + at_ms, pids)


def read_back(ledger: Ledger) -> Ledger:
    return Ledger("User:a", DEPLOYMENT, ledger.to_bytes())


def test_an_idle_principal_is_dismissed_with_its_release_and_a_last_row_of_rate_0() -> None:
    ledger = Ledger("User:a", DEPLOYMENT)
    ledger.process(events(list(range(30)), 0), TEN)

    outcome = read_back(ledger).expire()

    (release,), (row,) = outcome.decisions, outcome.metrics
    assert (release.action, release.quota, release.quota_updated_at_ms) == ("RELEASE", 10.0, START_MS)
    assert (row.rate, row.new_pids_window, row.active_pids, row.layers, row.tokens) == (0, 0, 0, 0, 10)
    assert (row.admitted_pids, row.refused_pids, row.throttle_time_ms) == (0, 0, 0)


BURSTS = st.lists(
    st.tuples(st.lists(st.integers(0, 40), min_size=1, max_size=30), st.integers(0, 40)), min_size=2, max_size=8
)


@given(bursts=BURSTS, rate=st.sampled_from([0.2, 3.0, 20.0, None]))
def test_removing_what_has_expired_changes_nothing_that_comes_out(
    bursts: list[tuple[list[int], int]], rate: float | None
) -> None:
    limit = UNLIMITED if rate is None else Limit(rate, "user")
    kept, collected = Ledger("User:a", DEPLOYMENT), Ledger("User:a", DEPLOYMENT)
    said_by_kept: list[Outcome] = []
    said_by_collected: list[Outcome] = []
    at_ms = 0
    for pids, quiet_hours in bursts:
        at_ms += quiet_hours * HOUR_MS
        # Somebody else's event has told the time before ours came.
        is_expired = said_by_kept and collected.expires_ms() <= START_MS + at_ms
        outcome = read_back(collected).expire() if is_expired else None
        said_by_kept.append(kept.process(events(pids, at_ms), limit))
        if outcome is not None:
            said_by_collected.append(outcome)
            collected = Ledger("User:a", DEPLOYMENT)
        said_by_collected.append(collected.process(events(pids, at_ms), limit))

    assert flat(said_by_kept) == flat(said_by_collected)
    assert kept.to_bytes() == collected.to_bytes()


def flat(outcomes: list[Outcome]) -> list[object]:
    decisions = [decision for outcome in outcomes for decision in outcome.decisions]
    rows = [asdict(row) | {"state_bytes": 0} for outcome in outcomes for row in outcome.metrics]
    return [decisions, rows]

"""What brokers hold, will hold, would forget, and who leads it after a death: on a census made by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from lifecycle.expiration_change import Freed, LostDedup, freed_by, lost_dedup
from lifecycle.failover import failovers
from lifecycle.forecast import Outlook
from lifecycle.generations import replaced
from lifecycle.occupancy import (
    MAX_IDLE_HOURS,
    Census,
    Held,
    Occupancy,
    Placement,
    ReplicaProducers,
    count_held,
    count_occupancy,
    owners_of,
)
from lifecycle.occupancy_rate import EarlierCensus, Rate, rates_of
from tests.kits.expiry_kit import PartitionProducers

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
NOW = 1_000 * DAY


def replica(
    entries: Sequence[tuple[float, ...]],
    *,
    broker: int = 1,
    topic: str = "orders",
    partition: int = 0,
    leads: bool = True,
) -> ReplicaProducers:
    """Entries are (producer id, hours idle) or (producer id, hours idle, in transaction)."""
    rows = [(*entry, False)[:3] for entry in entries]
    return ReplicaProducers(
        broker,
        topic,
        partition,
        leads,
        np.array([pid for pid, _, _ in rows], np.int64),
        np.array([round(NOW - hours * HOUR) for _, hours, _ in rows], np.int64),
        np.array([opened for _, _, opened in rows], np.bool_),
    )


def census(
    *replicas: ReplicaProducers,
    bound: Mapping[int, tuple[str, float]] | None = None,
    placements: Sequence[Placement] = (),
    expiration_ms: int = DAY,
    brokers: Sequence[int] = (),
    check_ms: int = 0,
) -> Census:
    """`bound` is the principal and the hours since the hand-out, by producer id.

    Unless a test is about that, brokers look for expired producers all the time.
    """
    told = {pid: (principal, round(NOW - hours * HOUR)) for pid, (principal, hours) in (bound or {}).items()}
    ids = {*brokers, *(each.broker_id for each in replicas)}
    owners = owners_of(replicas, told)
    expirations_ms, checks_ms = dict.fromkeys(ids, expiration_ms), dict.fromkeys(ids, check_ms)
    return Census(NOW, replicas, tuple(placements), owners, expirations_ms, checks_ms)


def of_flood(pids_per_hour: int, hours: int = 24, **more: Any) -> ReplicaProducers:
    """One batch per producer id, at a steady rate."""
    count = pids_per_hour * hours
    return replica([(pid, (pid + 0.5) / pids_per_hour) for pid in range(count)], **more)


# Counting


def test_led_and_held_are_apart_and_owners_are_named() -> None:
    found = count_occupancy(
        census(
            replica([(1, 0), (2, 0), (3, 0)]),
            replica([(1, 0), (4, 0)], partition=1, leads=False),
            replica([(1, 0)], broker=2, partition=1),
            bound={1: ("User:a", 1), 2: ("User:a", 1), 3: ("User:b", 1)},
        )
    )

    assert {(row.broker_id, row.principal): (row.led_pids, row.held_pids) for row in found} == {
        (1, "User:a"): (2, 3),
        (1, "User:b"): (1, 1),
        (1, "unknown"): (0, 1),
        (2, "User:a"): (1, 1),
    }
    assert found[0].held_pids == 3


def test_topics_are_apart_and_open_transactions_and_idle_hours_are_counted() -> None:
    rows = count_occupancy(
        census(
            replica([(1, 0.5), (2, 2.5, True), (3, 2.1)], topic="orders"),
            replica([(1, -1), (2, 20 * DAY / HOUR)], topic="audit"),
        )
    )

    orders = Occupancy(1, "orders", "unknown", 3, 3, 1, (1, 0, 2))
    assert orders in rows
    (audit,) = set(rows) - {orders}
    # A time of the future is now, one of long ago does not make the list longer.
    assert (audit.idle_hours[0], audit.idle_hours[-1], len(audit.idle_hours)) == (1, 1, MAX_IDLE_HOURS + 1)


def test_entries_of_a_principal_are_its_ids_times_partitions_times_replicas() -> None:
    ids = [(pid, 0.5) for pid in range(100)]
    found = census(*(replica(ids, broker=broker, partition=each) for broker in (1, 2, 3) for each in range(10)))

    assert count_held(found, count_occupancy(found)) == [Held("unknown", 100, 3000)]


def test_principals_are_sorted_by_entries_and_those_without_any_are_left_out() -> None:
    of_a = [replica([(1, 0)], partition=each) for each in range(5)]
    bound = {1: ("User:a", 1.0), 2: ("User:b", 1.0), 3: ("User:b", 1.0), 9: ("User:gone", 1.0)}
    found = census(*of_a, replica([(2, 0), (3, 0)], partition=5), bound=bound)

    assert count_held(found, count_occupancy(found)) == [Held("User:a", 1, 5), Held("User:b", 2, 2)]


# Rates


def test_the_rate_is_that_of_the_hand_outs_where_they_are_known() -> None:
    flood = of_flood(100, hours=3)
    old = replica([(pid, 0.1) for pid in range(1000, 1050)], partition=1)
    bound = {pid: ("User:m", (pid + 0.5) / 100) for pid in range(300)} | dict.fromkeys(
        range(1000, 1050), ("User:a", 500)
    )

    rate = rates_of(census(flood, old, bound=bound), 1).today

    # 300 in the last day; long-lived producers are not new, however lately they produced.
    assert rate.source == "hand-out times"
    assert rate.pids_per_hour == pytest.approx(300 / 24)


def test_today_s_rate_is_never_of_less_than_an_hour() -> None:
    flood = replica([(pid, 0.01) for pid in range(60)])
    assert rates_of(census(flood, bound=dict.fromkeys(range(60), ("User:m", 0.02))), 1).today.pids_per_hour == 60


def of_seconds(
    seconds_ago: Sequence[float] | npt.NDArray[Any], first_pid: int = 0
) -> tuple[list[tuple[int, float]], dict[int, tuple[str, float]]]:
    """One producer id per time, handed out and used then: its entries, and who got them."""
    pids = range(first_pid, first_pid + len(seconds_ago))
    entries = [(pid, at / 3600) for pid, at in zip(pids, seconds_ago, strict=True)]
    return entries, {pid: ("User:m", hours) for pid, hours in entries}


def lately_of(
    seconds_ago: Sequence[float] | npt.NDArray[Any],
    *,
    beside: Sequence[float] | npt.NDArray[Any] = (),
) -> Rate | None:
    entries, bound = of_seconds(seconds_ago)
    others, theirs = of_seconds(beside, first_pid=1_000_000)
    found = census(replica([*entries, *others]), bound=bound | theirs)
    return rates_of(found, 1).lately


def known(rate: Rate | None) -> Rate:
    assert rate is not None
    return rate


def test_floods_at_random_are_told_without_a_bias() -> None:
    rng = np.random.default_rng(3)
    found = [known(lately_of(np.cumsum(rng.exponential(1.0, 300)))).pids_per_hour for _ in range(100)]
    assert np.mean(found) == pytest.approx(3600, rel=0.1)
    assert np.std(found) < 0.1 * 3600


def test_producers_opened_at_once_are_no_flood_a_moment_later() -> None:
    at_once = np.linspace(0, 3, 100)
    assert lately_of(at_once + 70) is None
    # As it happens nobody can tell.
    assert known(lately_of(at_once)).pids_per_hour == 100 * 80


def test_producers_opened_at_once_as_a_flood_began_do_not_make_it_faster() -> None:
    lately = known(lately_of(np.arange(120) + 0.5, beside=[120.0] * 60))
    assert lately.pids_per_hour == pytest.approx(3600, rel=0.05)


def test_a_day_as_every_day_has_no_rate_of_its_own_lately() -> None:
    rng = np.random.default_rng(4)
    assert [lately_of(rng.uniform(0, DAY / 1000, 2400)) for _ in range(20)] == [None] * 20
    assert lately_of(np.linspace(0, 59, 19)) is None


def test_a_sweep_finds_what_was_handed_out_while_it_asked() -> None:
    # It began 20 s before the last of them.
    assert known(lately_of(np.arange(-20, 100))).pids_per_hour == pytest.approx(3600, rel=0.05)


def test_without_the_plugin_two_sweeps_tell_what_came_lately() -> None:
    now = census(replica([(pid, 0.01) for pid in range(300)]))
    sweeps = [EarlierCensus(2 * MINUTE, 180, 0, (180,)), EarlierCensus(30 * MINUTE, 170, 0, (170,))]
    lately = known(rates_of(now, 1, sweeps).lately)
    assert (lately.source, lately.pids_per_hour, lately.counted) == ("earlier sweep", 3600, 120)
    assert rates_of(now, 1, [EarlierCensus(20_000, 180, 0, (180,))]).lately is None


def test_an_earlier_census_tells_the_rate_also_of_what_expired_since() -> None:
    now = census(of_flood(100, hours=24))
    ten_hours_ago = EarlierCensus(10 * HOUR, 2400, 0, (100,) * 24)
    too_old = EarlierCensus(24 * HOUR, 1, 0, (1,))

    rate = rates_of(now, 1, [ten_hours_ago, too_old]).today

    assert rate.source == "earlier sweep"
    assert rate.pids_per_hour == pytest.approx(100)


def test_a_census_of_moments_ago_tells_no_rate() -> None:
    assert (
        rates_of(census(of_flood(100)), 1, [EarlierCensus(9 * MINUTE, 2400, 0, (2400,))]).today.source == "idle times"
    )


def test_an_earlier_census_does_not_take_open_transactions_for_expired() -> None:
    now = census(replica([(pid, 30, True) for pid in range(50)]))
    earlier = EarlierCensus(10 * HOUR, 50, 50, (*[0] * 20, 50))
    assert rates_of(now, 1, [earlier]).today.pids_per_hour == 0


@pytest.mark.parametrize("pids_per_hour", [10, 500])
def test_idle_times_alone_tell_a_steady_rate_beside_long_lived_producers(pids_per_hour: int) -> None:
    steady = replica([(pid, 0.2) for pid in range(100_000, 100_700)], partition=1)
    rate = rates_of(census(of_flood(pids_per_hour), steady), 1).today
    assert rate.source == "idle times"
    assert rate.pids_per_hour == pytest.approx(pids_per_hour, rel=0.01)


def test_a_broker_without_producers_has_no_rate() -> None:
    assert rates_of(census(replica([])), 1).today.pids_per_hour == 0
    assert Outlook(census(brokers=[1]), 1, Rate(0, "idle times")).held_in(DAY) == 0


# Forecast


def outlook(*replicas: ReplicaProducers, pids_per_hour: float, **more: Any) -> Outlook:
    return Outlook(census(*replicas, **more), 1, Rate(pids_per_hour, "told"))


def test_a_flood_that_began_lately_fills_the_broker_until_the_first_ones_expire() -> None:
    young = outlook(of_flood(100, hours=2), pids_per_hour=100)
    assert [young.held_in(hours * HOUR) for hours in (1, 10, 22, 24, 50)] == [300, 1200, 2400, 2400, 2400]
    assert young.settles_at == 2400
    assert young.reaches(1200) == 10 * HOUR
    assert young.reaches(2401) is None


def test_by_hand_out_times_what_was_used_for_longer_than_it_is_silent_goes_on() -> None:
    living, flood = [(pid, 1 / 3600) for pid in range(45)], [(pid, (pid - 100) / 3600) for pid in range(100, 160)]
    bound = dict.fromkeys(range(45), ("User:a", 0.5)) | {pid: ("User:m", hours) for pid, hours in flood}
    found = census(replica([*living, *flood]), bound=bound, expiration_ms=MINUTE, check_ms=1000)

    rate = rates_of(found, 1).likeliest_first[0]

    # A minute's flood comes and goes, and those who live stay.
    ahead = Outlook(found, 1, rate)
    assert [ahead.held_in(minutes * MINUTE) for minutes in (0, 1, 60)] == [105, 106, 106]
    assert ahead.settles_at == pytest.approx(105, rel=0.02)


@pytest.mark.parametrize(
    ("ends_s", "gone"),
    [
        ([9_940] * 3, 3),
        ([9_939] * 3, 0),
        ([10_062] * 3, 3),
        ([10_063] * 3, 0),
        ([9_950] * 2, 0),
        ([9_950] * 4 + [19_000] * 6, 0),
        ([9_950] * 5 + [19_000] * 5, 5),
    ],
    ids=["as it begins", "before", "as it has begun", "after", "too few", "less than half", "half"],
)
def test_ids_that_end_together_as_the_next_group_begins_are_replaced(ends_s: list[int], gone: int) -> None:
    begins_s, following = [0] * len(ends_s) + [10_000, 10_001, 10_002], [19_000] * 3

    begins_ms, ends_ms = (np.array(each, np.int64) * 1000 for each in (begins_s, ends_s + following))

    assert int(replaced(begins_ms, ends_ms, 19_000_000).sum()) == gone


def test_the_forecast_agrees_with_the_model_of_the_broker_to_a_check() -> None:
    rng = np.random.default_rng(9)
    idle_ms = rng.integers(0, DAY, 500)
    model = PartitionProducers(loaded_at_ms=NOW - 3 * MINUTE)
    for pid, idle in enumerate(idle_ms.tolist()):
        model.append(pid, NOW - idle)
    entries = [(pid, idle / HOUR) for pid, idle in enumerate(idle_ms.tolist())]
    ahead = outlook(replica(entries), pids_per_hour=1e9, check_ms=10 * MINUTE)
    # So fast a rate leaves nothing that is in use for long; take it out again.
    for hours in (1, 6, 12, 23):
        model.advance(NOW + hours * HOUR)
        silent, late = (
            ahead.held_in((hours + half_a_check) * HOUR) - round(1e9 * (hours + half_a_check))
            for half_a_check in (1 / 12, -1 / 12)
        )
        assert silent <= len(model) <= late


# Another expiration


def test_an_entry_expires_at_the_full_time_unless_its_transaction_is_open() -> None:
    soon = 1 - 1 / HOUR
    found = census(replica([(1, 1), (2, soon), (3, 1, True), (4, soon, True), (5, 24), (6, 24 - 1 / HOUR), (7, -1)]))
    assert freed_by(found, HOUR) == [Freed(1, held_pids=7, freed_pids=2, kept_open=1)]


def test_those_who_would_lose_dedup_are_told_by_what_is_known_of_them() -> None:
    found = census(
        replica([(1, 3), (2, 3), (3, 3), (4, 0.1), (5, 3), (6, 3)]),
        replica([(1, 0.1), (6, 4, True)], partition=1),
        # Followers' entries do not make a producer lose anything.
        replica([(9, 3)], partition=2, leads=False),
        bound={
            1: ("User:a", 20),
            2: ("User:a", 20),
            3: ("User:a", 3.1),
            4: ("User:a", 20),
            6: ("User:b", 20),
            9: ("User:b", 20),
        },
    )

    assert lost_dedup(found, HOUR) == [
        LostDedup("User:a", 3, alive=1, long_lived=1),
        LostDedup("User:b", 1, alive=1, long_lived=0),
        LostDedup("unknown", 1, alive=0, long_lived=0),
    ]
    assert [each.silent for each in lost_dedup(found, HOUR)] == [1, 0, 1]


# Failover


def test_a_partition_without_another_replica_in_sync_has_no_leader() -> None:
    alone = Placement("logs", 5, 1, (1, 2), frozenset({1}))
    headless = Placement("logs", 6, None, (3,), frozenset({3}))
    found = census(replica([(1, 0)], topic="logs", partition=5), placements=[alone, headless], brokers=[1, 2])

    first, second = failovers(found)

    assert (first.dead, first.leaderless) == (1, (("logs", 5), ("logs", 6)))
    # Nobody leads what only a broker has that is down.
    assert (second.dead, second.leaderless) == (2, (("logs", 6),))

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, repeat
from unittest.mock import patch

import pytest

from broker.enforcement import loop
from broker.enforcement.loop import Loop
from broker.enforcement.metrics import EnforcerMetrics
from broker.enforcement.model import Clocks
from broker.enforcement.notices import Notice
from broker.enforcement.stream_watch import StreamWatch
from broker.errors import EnforceError, EnforcerLockError
from tables.errors import TableError
from tests.kits.broker_kit import wait_until
from tests.kits.enforcer_kit import MALLORY, START_MS, World, unavailable

AN_HOUR_S = 3600.0


class Passing(threading.Event):
    """Stands in for `time` and for the event that stops the loop, after some seconds: time passes as it waits."""

    def __init__(self, world: World, stops_after_s: float) -> None:
        super().__init__()
        self._world, self._stops_after_s = world, stops_after_s
        self.waits: list[float] = []

    def time(self) -> float:
        return self._world.now_ms / 1000

    def monotonic(self) -> float:
        return self._world.steady_ms / 1000

    def is_set(self) -> bool:
        return self.monotonic() >= self._stops_after_s

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout, "it spins"
        assert timeout > 0
        self.waits.append(timeout)
        self._world.pass_seconds(math.ceil(timeout * 1000) / 1000)
        return self.is_set()

    def sleep(self, seconds: float) -> None:
        self._world.pass_seconds(seconds)


def run_until(world: World, stop: threading.Event, poll_seconds: float = AN_HOUR_S) -> EnforcerMetrics:
    watch = StreamWatch(lambda: START_MS, lambda: 0, world.enforcer.alert)
    clocks, metrics = Clocks(lambda: world.now_ms, lambda: world.steady_ms), EnforcerMetrics(lambda: world.now_ms)
    Loop(world.enforcer, watch, metrics, clocks, world.notices.append, poll_seconds).run(stop)
    return metrics


def passed_ms(notice: Notice) -> int:
    # The fake clock rounds each wait up to a millisecond.
    return round(notice.at_ms - START_MS, -2)


def pass_seconds(world: World, seconds: float, poll_seconds: float = 1.0) -> list[float]:
    """Run for so long; return how long it waited each time."""
    passing = Passing(world, seconds)
    with patch.object(loop, "time", passing):
        run_until(world, passing, poll_seconds)
    return passing.waits


def has_throttled(world: World, user: str) -> bool:
    return user in [notice.principal for notice in world.notices_of("throttled")]


def test_a_decision_is_carried_out_without_waiting_for_the_next_read_and_ends_with_the_enforcer() -> None:
    world, stop = World(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_until, world, stop)
        try:
            for user in ("User:mallory", "User:alice", "User:bob"):
                world.decide(user)
                wait_until(partial(has_throttled, world, user), user)
        finally:
            stop.set()
        running.result()
    assert len(world.notices_of("throttled")) == 3
    assert (world.broker.quotas, world.log.states(MALLORY)[-1]) == ({}, "restored")


def test_without_news_it_reads_once_a_poll_and_looks_for_news_all_the_time() -> None:
    world = World()
    with patch.object(world.decisions, "newest", wraps=world.decisions.newest) as read:
        waits = pass_seconds(world, 5.5)
    assert read.call_count == 5
    assert max(waits) <= 0.02


def test_pauses_after_failures_double_up_to_five_seconds_and_begin_anew_after_a_success() -> None:
    world, torn = World(), TableError("torn commit")
    turns = chain([torn] * 4, [[]], [torn], repeat([]))
    with patch.object(world.decisions, "newest", side_effect=turns):
        pass_seconds(world, 30)
    told = [(passed_ms(notice), notice.why) for notice in world.notices_of("trying again")]
    expected = [(1000, 2), (3000, 4), (7000, 5), (12_000, 5), (18_000, 2)]
    assert told == [(at_ms, f"in {pause_s} s: torn commit") for at_ms, pause_s in expected]


def test_news_do_not_shorten_the_pause_after_a_failure() -> None:
    world = World()
    world.decisions.broken = TableError("torn commit")

    class Deciding(Passing):
        def wait(self, timeout: float | None = None) -> bool:
            world.decide(f"User:u{len(self.waits)}")
            return super().wait(timeout)

    passing = Deciding(world, 6.5)
    with patch.object(loop, "time", passing):
        run_until(world, passing, 1.0)
    told = [(passed_ms(notice), notice.why) for notice in world.notices_of("trying again")]
    # The first news come at once.
    assert [why for _, why in told] == [f"in {pause_s} s: torn commit" for pause_s in (2, 4, 5)]
    assert [at_ms for at_ms, _ in told] == [0, 2000, 6000]


def test_a_lease_that_falls_due_while_the_log_fails_ends_before_the_next_try() -> None:
    world = World()
    world.enforce(seconds=5)
    world.log.broken = TableError("torn commit")
    pass_seconds(world, 6.5)
    # Tried after 1 s and 3 s; next after 7 s.
    assert [passed_ms(notice) for notice in world.notices_of("restored")] == [5000]


def test_leases_end_on_time_however_rarely_the_tables_are_read() -> None:
    world = World()
    world.decide(seconds=5)
    world.reconcile()
    with patch.object(world.decisions, "newest", wraps=world.decisions.newest) as read:
        pass_seconds(world, 6.5, poll_seconds=3600)
    assert [passed_ms(notice) for notice in world.notices_of("restored")] == [5000]
    assert read.call_count == 0


def test_a_stream_that_stays_silent_is_told() -> None:
    world = World()
    pass_seconds(world, 310)
    (alert,) = world.notices_of("alert")
    assert "the stream has written nothing" in alert.why


def test_a_reconciliation_that_ends_makes_it_ready() -> None:
    world = World()
    passing = Passing(world, 2.5)
    with patch.object(loop, "time", passing):
        metrics = run_until(world, passing, 1.0)
    assert metrics.unready() == ""


def test_an_enforcer_that_waits_for_the_lock_is_not_ready() -> None:
    world = World()
    world.lock.held = False
    passing = Passing(world, 2.5)
    with patch.object(loop, "time", passing):
        metrics = run_until(world, passing, 1.0)
    assert metrics.unready() == "waits for the lock, which another enforcer holds"


class Recovering(Passing):
    """Kafka answers again after so many pauses of the end."""

    def __init__(self, world: World, after: int) -> None:
        super().__init__(world, 2.5)
        self._left = after

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self._left -= 1
        if not self._left:
            self._world.broker.errors.clear()


def end_while_kafka_is_away(world: World, after: int) -> None:
    world.enforce()
    world.broker.errors[MALLORY] = unavailable()
    passing = Recovering(world, after)
    with patch.object(loop, "time", passing):
        run_until(world, passing, 1.0)


def test_leases_that_kafka_does_not_end_at_once_are_ended_when_it_answers_again() -> None:
    world = World()
    end_while_kafka_is_away(world, 4)
    assert (world.broker.quotas, world.targets()) == ({}, set())


def test_the_end_is_tried_again_soon_however_rarely_the_tables_are_read() -> None:
    world = World()
    world.enforce()
    world.broker.errors[MALLORY] = unavailable()
    passing = Recovering(world, after=2)
    with patch.object(loop, "time", passing):
        run_until(world, passing, poll_seconds=AN_HOUR_S)
    assert world.broker.quotas == {}
    assert world.steady_ms < 10_000


def test_leases_that_can_not_be_ended_are_named() -> None:
    world = World()
    with pytest.raises(EnforceError, match=r"not ended: request_percentage on user 'mallory'.*--release-all"):
        end_while_kafka_is_away(world, 100)


def test_leases_are_named_as_not_ended_if_the_lock_can_not_be_confirmed() -> None:
    world = World()
    world.enforce()
    passing = Passing(world, 0.5)
    away = patch.object(world.lock, "confirm", side_effect=EnforcerLockError("no coordinator"))
    with patch.object(loop, "time", passing), away, pytest.raises(EnforceError) as error:
        run_until(world, passing, 1.0)
    assert "not ended: request_percentage on user 'mallory' (no coordinator)" in str(error.value)

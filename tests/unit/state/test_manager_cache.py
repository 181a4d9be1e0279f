from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from quota.errors import InvalidConfigError
from state import ProducerIdQuotaManagerCache

HOUR_S = 3600.0


@dataclass
class Clock:
    """A clock that a test sets, in seconds."""

    now: float = 1_790_002_800.0

    def __call__(self) -> float:
        return self.now


def make(clock: Clock, false_positive_rate: float = 1e-9) -> ProducerIdQuotaManagerCache:
    return ProducerIdQuotaManagerCache(false_positive_rate, 3600, 4, clock=clock)


def test_a_pid_is_new_once_and_then_found() -> None:
    cache = make(Clock())

    assert [cache.track("User:a", 100, 7) for _ in range(3)] == [False, True, True]


def test_no_two_caches_take_the_same_unseen_pids_for_known_ones() -> None:
    caches, mistaken = [make(Clock(), 0.05) for _ in range(2)], []
    for cache in caches:
        for pid in range(2000):
            cache.track("User:a", 100, pid)
        mistaken.append(
            {pid for pid in range(10**6, 10**6 + 2000) if cache.track("User:a", 100, pid, admit=lambda: False)}
        )

    assert all(mistaken)
    assert mistaken[0] != mistaken[1]


def test_an_idle_principal_is_forgotten_entirely() -> None:
    clock = Clock()
    cache = make(clock)
    cache.track("User:a", 100, 7)
    clock.now += 2 * HOUR_S

    assert len(cache) == 0


def test_a_clock_set_back_brings_no_expired_pid_back() -> None:
    clock = Clock()
    cache = make(clock)
    cache.track("User:a", 100, 7)
    clock.now += 2 * HOUR_S
    cache.track("User:b", 100, 1)
    clock.now -= 2 * HOUR_S

    assert cache.track("User:a", 100, 7) is False


def test_a_clock_that_leaps_a_year_ahead_once_does_not_stop_time() -> None:
    clock = Clock()
    cache = make(clock)
    cache.track("User:a", 100, 7)
    clock.now += 365 * 24 * HOUR_S
    cache.track("User:b", 100, 1)
    clock.now -= 365 * 24 * HOUR_S

    for hour in range(48):
        clock.now += HOUR_S
        for number in range(100):
            cache.track("User:a", 100, 10_000 + 100 * hour + number)
    remembered = sum(cache.track("User:a", 100, 10_000 + pid, admit=lambda: False) for pid in range(4800))

    # Those of the last two hours: a PID is known for a window, and for less than a quantum more.
    assert remembered == 200
    assert len(cache) == 1


@pytest.mark.parametrize("arguments", [(0.0, 3600, 4), (1.0, 3600, 4), (0.01, 0, 4), (0.01, 3600, 0)])
def test_arguments_out_of_range_are_refused(arguments: tuple[float, int, int]) -> None:
    with pytest.raises(InvalidConfigError):
        ProducerIdQuotaManagerCache(*arguments)


class TestDefectsOfThePublicJavaSketch:
    """One test per defect that reading `ProducerIDQuotaManagerCache.java` shows."""

    def test_1_cleanup_removes_expired_layers_and_keeps_live_ones(self) -> None:
        clock = Clock()
        cache = make(clock)
        cache.track("User:a", 100, 1)
        clock.now += HOUR_S / 2
        cache.track("User:a", 100, 2)
        clock.now += HOUR_S * 3 / 4 + 1

        assert (cache.track("User:a", 100, 1), cache.track("User:a", 100, 2)) == (False, True)

    def test_2_writing_does_not_put_off_the_next_layer(self) -> None:
        clock = Clock()
        cache = make(clock)
        cache.track("User:a", 100, 1)
        # Merges all the time, each shortly after the last one, for longer than a PID is remembered.
        for step in range(90):
            clock.now += 60
            cache.track("User:a", 100, 1000 + step)

        assert cache.track("User:a", 100, 1) is False

    @pytest.mark.parametrize("rate", [0, 0.4, 1, 1.9])
    def test_3_a_quota_below_half_the_layer_count_is_legal(self, rate: float) -> None:
        cache = make(Clock())

        assert [cache.track("User:a", rate, 1), cache.track("User:a", rate, 1)] == [False, True]

    def test_4_a_principal_may_outgrow_the_quota_it_was_first_seen_with(self) -> None:
        cache = make(Clock(), false_positive_rate=0.01)
        cache.track("User:a", 4, 0)

        found = sum(cache.track("User:a", 100_000, pid) for pid in range(1, 50_001))

        assert found <= 0.01 * 50_000

    def test_5_looking_up_and_storing_are_one_step(self) -> None:
        cache = make(Clock())

        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: cache.track("User:a", 100, 7), range(800)))

        assert found.count(False) == 1

    def test_6_an_unseen_pid_is_stored_only_if_it_is_admitted(self) -> None:
        cache = make(Clock())

        assert [cache.track("User:a", 100, 7, admit=lambda: False) for _ in range(2)] == [False] * 2
        assert [cache.track("User:a", 100, 7) for _ in range(2)] == [False, True]

from hypothesis import given
from hypothesis import strategies as st

from broker.tap.learning import LearningTime

HOUR_MS = 3_600_000


def test_the_first_window_of_a_watch_is_learning_and_the_next_is_not() -> None:
    watch = LearningTime()

    assert watch.is_learning(0, HOUR_MS)
    assert watch.is_learning(HOUR_MS - 1, HOUR_MS)
    assert not watch.is_learning(HOUR_MS, HOUR_MS)


def test_an_older_line_does_not_turn_the_watch_back() -> None:
    watch = LearningTime(since_ms=0, newest_ms=5 * HOUR_MS)

    watch.is_learning(4 * HOUR_MS, HOUR_MS)

    assert watch.newest_ms == 5 * HOUR_MS


@given(times=st.lists(st.integers(0, 10 * HOUR_MS), min_size=1))
def test_turned_off_it_never_learns(times: list[int]) -> None:
    watch = LearningTime()

    assert not any(watch.is_learning(at_ms, 0) for at_ms in sorted(times))


def test_lost_lines_begin_a_new_watch_however_short_the_silence() -> None:
    watch = LearningTime(since_ms=0, newest_ms=5 * HOUR_MS)

    watch.restart()

    assert watch.is_learning(5 * HOUR_MS + 1, HOUR_MS)
    assert not watch.is_learning(6 * HOUR_MS + 1, HOUR_MS)


def test_a_first_line_from_the_future_begins_a_watch_that_the_next_line_corrects() -> None:
    watch = LearningTime()
    watch.is_learning(48 * HOUR_MS, HOUR_MS)

    assert watch.is_learning(0, HOUR_MS)
    assert not watch.is_learning(HOUR_MS, HOUR_MS)


def test_a_watch_lasts_from_its_first_line_to_the_end_of_its_window_or_the_first_loss() -> None:
    watch = LearningTime()
    assert not watch.lasts(HOUR_MS)

    watch.observe(0, HOUR_MS)
    assert watch.lasts(HOUR_MS)
    watch.restart()
    assert not watch.lasts(HOUR_MS)

    watch.observe(1, HOUR_MS)
    watch.observe(HOUR_MS, HOUR_MS)
    assert watch.lasts(HOUR_MS)
    watch.observe(HOUR_MS + 1, HOUR_MS)
    assert not watch.lasts(HOUR_MS)


def test_a_silence_is_no_gap_once_a_watch_has_learned() -> None:
    watch = LearningTime(since_ms=0, newest_ms=5 * HOUR_MS)

    assert not watch.is_learning(50 * HOUR_MS, HOUR_MS)


def test_a_clock_that_jumps_while_a_watch_learns_ends_no_learning() -> None:
    watch = LearningTime()
    watch.observe(0, HOUR_MS)

    assert watch.is_learning(20 * HOUR_MS, HOUR_MS)
    assert watch.is_learning(21 * HOUR_MS - 1, HOUR_MS)
    assert not watch.is_learning(21 * HOUR_MS, HOUR_MS)


def test_lines_that_threads_hand_over_side_by_side_do_not_turn_a_new_watch_back() -> None:
    watch = LearningTime()
    watch.observe(9 * HOUR_MS, HOUR_MS)

    assert watch.is_learning(9 * HOUR_MS - 5, HOUR_MS)
    assert watch.since_ms == 9 * HOUR_MS

from hypothesis import given
from hypothesis import strategies as st

from broker.attribution.learning import LearningTime

HOUR_MS = 3_600_000


def test_the_first_window_of_a_watch_is_learning_and_the_next_is_not() -> None:
    watch = LearningTime()

    assert watch.is_learning(0, HOUR_MS)
    assert watch.is_learning(HOUR_MS - 1, HOUR_MS)
    assert not watch.is_learning(HOUR_MS, HOUR_MS)


def test_a_gap_longer_than_a_window_begins_a_new_watch_and_a_shorter_one_does_not() -> None:
    watch = LearningTime(since_ms=0, newest_ms=5 * HOUR_MS)

    assert not watch.is_learning(6 * HOUR_MS, HOUR_MS)
    assert watch.is_learning(7 * HOUR_MS + 1, HOUR_MS)
    assert watch.since_ms == 7 * HOUR_MS + 1


def test_an_older_line_does_not_turn_the_watch_back() -> None:
    watch = LearningTime(since_ms=0, newest_ms=5 * HOUR_MS)

    watch.is_learning(4 * HOUR_MS, HOUR_MS)

    assert watch.newest_ms == 5 * HOUR_MS


@given(times=st.lists(st.integers(0, 10 * HOUR_MS), min_size=1))
def test_turned_off_it_never_learns(times: list[int]) -> None:
    watch = LearningTime()

    assert not any(watch.is_learning(at_ms, 0) for at_ms in sorted(times))


def test_an_idle_broker_whose_log_is_on_is_no_gap() -> None:
    watch = LearningTime(since_ms=0, newest_ms=5 * HOUR_MS)

    watch.extend(3 * HOUR_MS)

    assert not watch.is_learning(9 * HOUR_MS, HOUR_MS)


def test_lines_that_make_no_event_say_that_the_log_is_on() -> None:
    watch = LearningTime(since_ms=0, newest_ms=5 * HOUR_MS)

    for hour in (6, 7, 8):
        watch.observe(hour * HOUR_MS, HOUR_MS)

    assert not watch.is_learning(9 * HOUR_MS, HOUR_MS)


def test_lost_lines_begin_a_new_watch_however_short_the_silence() -> None:
    watch = LearningTime(since_ms=0, newest_ms=5 * HOUR_MS)

    watch.restart()

    assert watch.is_learning(5 * HOUR_MS + 1, HOUR_MS)
    assert not watch.is_learning(6 * HOUR_MS + 1, HOUR_MS)


def test_a_line_from_the_future_makes_no_one_learn_once_an_older_one_comes() -> None:
    watch = LearningTime(since_ms=0, newest_ms=5 * HOUR_MS)

    assert watch.is_learning(53 * HOUR_MS, HOUR_MS)

    assert not watch.is_learning(5 * HOUR_MS + 1, HOUR_MS)
    assert not watch.is_learning(5 * HOUR_MS + 2, HOUR_MS)
    assert watch.since_ms == 0


def test_a_first_line_from_the_future_begins_a_watch_that_the_next_line_corrects() -> None:
    watch = LearningTime()
    watch.is_learning(48 * HOUR_MS, HOUR_MS)

    assert watch.is_learning(0, HOUR_MS)
    assert not watch.is_learning(HOUR_MS, HOUR_MS)


def test_lines_that_threads_wrote_side_by_side_do_not_turn_a_new_watch_back() -> None:
    watch = LearningTime(since_ms=0, newest_ms=HOUR_MS)
    watch.is_learning(9 * HOUR_MS, HOUR_MS)

    assert watch.is_learning(9 * HOUR_MS - 5, HOUR_MS)
    assert watch.is_learning(9 * HOUR_MS + 1, HOUR_MS)


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

"""When a stream says that it hangs."""

from unittest.mock import Mock

from jobs.stream.stream_pulse import BATCH_S, BEAT_S, BEGIN_S, Pulse, work_of


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_stream_whose_jvm_does_not_answer_hangs_and_a_start_may_take_longer() -> None:
    clock = Clock()
    pulse = Pulse(clock)
    assert asked(pulse, clock, BEGIN_S) == ""
    assert asked(pulse, clock, 1) == "the JVM has not answered for 241 s"
    pulse.beat()
    assert asked(pulse, clock, BEAT_S + 1) == "the JVM has not answered for 61 s"
    pulse.beat()
    assert pulse.unwell() == ""


def test_a_stream_that_was_stopped_beats_before_it_is_judged() -> None:
    clock = Clock()
    pulse = Pulse(clock)
    pulse.beat()
    asked(pulse, clock, 30)
    clock.now_s += 600
    assert pulse.unwell() == ""
    assert asked(pulse, clock, BEAT_S + 1) != ""


def test_a_batch_of_a_stream_that_was_stopped_for_long_is_judged_by_the_time_that_it_ran() -> None:
    # given a batch that runs for a minute
    clock = Clock()
    pulse = Pulse(clock)
    for _ in range(12):
        clock.now_s += 5
        pulse.beat((1, 0))
        assert pulse.unwell() == ""

    # when the host is suspended for longer than a batch may take, twice
    for _ in range(2):
        clock.now_s += 2 * BATCH_S
        assert pulse.unwell() == ""
        pulse.beat((1, 0))
        assert pulse.unwell() == ""

    # then the batch still has the time that it has not run
    for _ in range(round(BATCH_S / 5) + 1):
        clock.now_s += 5
        pulse.beat((1, 0))
    assert "no progress" in pulse.unwell()


def asked(pulse: Pulse, clock: Clock, seconds: float) -> str:
    """Ask for some time, every second, and return the last answer."""
    for _ in range(round(seconds)):
        clock.now_s += 1
        answer = pulse.unwell()
    return answer


def test_a_batch_hangs_if_no_task_of_it_ends_and_a_long_one_does_not() -> None:
    clock = Clock()
    pulse = Pulse(clock)
    for number in range(400):
        clock.now_s += 5
        # A task ends each 100 s.
        pulse.beat((1, number // 20))
        assert pulse.unwell() == ""
    for _ in range(round(BATCH_S / 5) + 2):
        clock.now_s += 5
        pulse.beat((2, 0))
    assert pulse.unwell().startswith("a batch has made no progress for 90")
    pulse.progressed()
    assert pulse.unwell() == ""


def test_a_stream_without_brokers_or_records_does_not_hang() -> None:
    clock = Clock()
    pulse = Pulse(clock)
    for _ in range(10_000):
        clock.now_s += 5
        pulse.beat(None)
        assert pulse.unwell() == ""


def test_work_is_the_oldest_stage_and_nothing_without_a_batch() -> None:
    spark, query = Mock(), Mock()
    for is_active, has_data in ((True, False), (False, True)):
        query.status = {"isTriggerActive": is_active, "isDataAvailable": has_data}
        assert work_of(spark, [query]) is None
    query.status = {"isTriggerActive": True, "isDataAvailable": True}
    tracker = spark.sparkContext.statusTracker.return_value
    tracker.getActiveStageIds.return_value = [7, 4]
    tracker.getStageInfo.side_effect = lambda number: Mock(numCompletedTasks=10 * number)
    assert work_of(spark, [query]) == (4, 40)
    tracker.getActiveStageIds.return_value = []
    assert work_of(spark, [query]) == (None, 0)

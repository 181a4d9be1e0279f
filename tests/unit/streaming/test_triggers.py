import pytest

from streaming.triggers import EVENTS_PER_SECOND, MAX_EVENTS, MIN_EVENTS, records_of_a_batch
from tests.kits.batch_kit import stream_options


@pytest.mark.parametrize(
    ("triggers", "records"),
    [
        (("3 seconds", "3 second", "interval 3 seconds", "3000 milliseconds", "0.05 minutes"), 3 * EVENTS_PER_SECOND),
        ((" 3 Seconds ",), 3 * EVENTS_PER_SECOND),
        (("0 seconds", "100 milliseconds", "1 second", "available-now"), MIN_EVENTS),
        (("10 seconds", "1 minute", "2 hours"), MAX_EVENTS),
        (("1 minute 30 seconds", "P1D", "soon"), MIN_EVENTS),
    ],
    ids=["read in a trigger", "in other letters", "short", "long", "only Spark can read it"],
)
def test_a_batch_takes_what_two_cores_read_in_a_trigger_within_bounds(triggers: tuple[str, ...], records: int) -> None:
    assert [records_of_a_batch(trigger) for trigger in triggers] == [records] * len(triggers)


@pytest.mark.parametrize("trigger", ["1 second", "5 seconds", "1 minute", "available-now"])
@pytest.mark.parametrize("events_per_record", [1.0, 2.5, 20.0, 1000.0])
def test_the_events_of_a_batch_have_the_same_bound_however_many_a_record_holds(
    trigger: str, events_per_record: float
) -> None:
    events = records_of_a_batch(trigger, events_per_record) * events_per_record

    assert MIN_EVENTS - events_per_record <= events <= MAX_EVENTS + events_per_record


def test_a_topic_of_several_events_a_record_takes_fewer_records_unless_the_operator_says_how_many() -> None:
    assert stream_options(trigger="5 seconds", events_per_record=20.0).most_records == MAX_EVENTS // 20
    assert stream_options(trigger="5 seconds", events_per_record=20.0, max_offsets_per_trigger=7).most_records == 7

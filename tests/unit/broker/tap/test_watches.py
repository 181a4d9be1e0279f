import pytest

from broker.errors import TapError
from broker.log.sources import LineBatch
from broker.tap.watches import Watches
from tests.kits.class_lines_kit import ClassLines
from wire.broker_lines import MAX_LINE_BYTES
from wire.records import ProduceEvent

HOUR_MS = 3_600_000


def watches() -> Watches:
    return Watches(learn_ms=HOUR_MS, own_topic="events")


def events(
    of: Watches, *lines: bytes, broker_id: int | None = 1, stream: str = "file", lost: bool = False
) -> list[ProduceEvent]:
    records = of.take(LineBatch(stream, broker_id, list(lines), after_loss=lost))
    return [record for record in records if isinstance(record, ProduceEvent)]


def mature(of: Watches, lines: ClassLines, stream: str = "file") -> None:
    """Watch a broker until it has been learned."""
    sent = [lines.start(), lines.pass_s(1800).alive(), lines.pass_s(1800).alive()]
    events(of, *sent, broker_id=None, stream=stream)


@pytest.mark.parametrize("broker_id", [2, None])
def test_lines_of_several_brokers_are_told_apart_unless_only_one_may_have_written_them(broker_id: int | None) -> None:
    one, other, of = ClassLines(1), ClassLines(2), watches()
    mixed = [other.start(), one.start(), other.batch(1), one.batch(2)]
    if broker_id is None:
        assert [(each.broker_id, each.producer_id) for each in events(of, *mixed, broker_id=None)] == [(2, 1), (1, 2)]
        return

    with pytest.raises(TapError, match="a line of broker 1 is among those of broker 2: let each broker write a file"):
        events(of, *mixed, broker_id=broker_id)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"not JSON",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"q":' * 100_000,
        b'{"type":"batch"}',
        b'{"type":"other","number":1,"timestamp_ms":1,"broker_id":1}',
        b'{"ts":1790000000000,"thread":"data-plane-kafka-request-handler-0","logger":"KafkaApis","message":"x"}',
        ClassLines().batch(1).replace(b'"producer_id":1', b'"producer_id":9223372036854775808'),
        ClassLines().batch(1, "User:a").replace(b"User:a", b"User:\\ud800"),
        ClassLines().batch(1, "User:" + MAX_LINE_BYTES * "x"),
    ],
)
def test_a_line_that_is_none_is_counted_shown_and_never_an_event(line: bytes) -> None:
    of, lines = watches(), ClassLines()

    assert events(of, lines.start(), line) == []
    assert (of.bad_lines, list(of.bad_samples)) == (1, [line[:200].decode(errors="replace")])


def test_a_bad_line_begins_the_watches_of_its_stream_anew_and_no_other() -> None:
    of, here, beside, elsewhere = watches(), ClassLines(1), ClassLines(2), ClassLines(3)
    mature(of, here, "partition 0")
    mature(of, beside, "partition 0")
    mature(of, elsewhere, "partition 1")

    events(of, b"?", broker_id=None, stream="partition 0")

    learning = {
        each.broker_id: each.learning
        for lines in (here, beside, elsewhere)
        for each in events(of, lines.batch(1), broker_id=None, stream=f"partition {lines.broker_id // 3}")
    }
    assert learning == {1: True, 2: True, 3: False}


def test_lost_files_or_records_begin_a_watch_anew() -> None:
    of, lines = watches(), ClassLines()
    mature(of, lines)

    assert [each.learning for each in events(of, lines.batch(1), lost=True)] == [True]


def test_a_partial_last_line_of_a_killed_broker_hides_no_new_run() -> None:
    of, lines = watches(), ClassLines()
    mature(of, lines)
    events(of, *(lines.batch(number) for number in range(20)))
    torn = lines.batch(99)[:57]

    # The new run's first line is written behind it, and is lost with it.
    found = events(of, torn + lines.start(), lines.batch(1), lines.batch(2), lines.alive())

    assert [(each.producer_id, each.learning) for each in found] == [(1, True), (2, True)]
    assert of.bad_lines == 1
    assert of.counters.duplicates == 0


@pytest.mark.parametrize("text", ["User:alice", 'User:{"principal":"User:victim"}', 'User:\\"\\u0022', "User:😀é\n"])
def test_a_line_that_is_cut_off_anywhere_makes_no_event_alone_or_before_the_next_line(text: str) -> None:
    of, start = watches(), ClassLines().start()
    whole = ClassLines().lose().batch(7, text, client_id=text, transactional_id=text)

    for length in range(1, len(whole)):
        assert events(of, whole[:length], whole[:length] + start, whole[:length] + whole) == []

    assert [(each.producer_id, each.principal) for each in events(of, whole)] == [(7, text)]


def test_each_broker_goes_on_where_the_last_run_of_the_tap_ended() -> None:
    first, one, other = watches(), ClassLines(1), ClassLines(2)
    mature(first, one)
    mature(first, other)
    second = watches()

    second.restore(first.saved())
    other.lose()

    found = events(second, one.batch(1), other.batch(2), broker_id=None)
    assert {each.broker_id: each.learning for each in found} == {1: False, 2: True}


def test_a_broker_without_a_name_of_its_own_in_the_records_is_known_by_its_lines() -> None:
    of = watches()

    events(of, ClassLines(3).start(), ClassLines(11).start(), broker_id=None)

    assert list(of.by_name) == ["3", "11"]

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import TapError
from broker.tap.broker_watch import BrokerWatch
from broker.tap.known_ids import KnownIdAnswers, KnownIds, Watched
from tests.kits.class_lines_kit import ClassLines
from wire.broker_lines import LINE_FORMAT, decode_line
from wire.records import ProduceEvent, ProducerInit

HOUR_MS = 3_600_000


def watch(said: list[str] | None = None, learn_ms: int = HOUR_MS) -> BrokerWatch:
    heard = list[str]() if said is None else said
    return BrokerWatch(1, learn_ms=learn_ms, own_topic="events", warn=heard.append)


def take(of: BrokerWatch, *lines: bytes) -> list[ProduceEvent]:
    records = [of.take(decode_line(line)) for line in lines]
    return [record for record in records if isinstance(record, ProduceEvent)]


def learned(of: BrokerWatch, *lines: bytes) -> list[bool]:
    return [event.learning for event in take(of, *lines)]


def mature(lines: ClassLines) -> BrokerWatch:
    """A watch that has learned."""
    of = watch()
    take(of, lines.start(), lines.pass_s(1800).alive(), lines.pass_s(1800).alive())
    assert learned(of, lines.batch(1)) == [False]
    return of


def test_a_batch_is_an_event_with_all_that_the_line_tells() -> None:
    lines = ClassLines(broker_id=1)
    line = lines.batch(7, producer_epoch=3, partition=2, transactional_id="tx")

    assert take(watch(learn_ms=0), line) == [
        ProduceEvent(
            *(lines.at_ms, "User:alice", 7, 3, 1, "orders", 2, "app", "tx"),
            repeated=False,
            address="10.0.0.7",
        )
    ]


def test_an_answer_to_init_producer_id_is_a_record_with_the_address_of_the_client() -> None:
    lines = ClassLines()
    line = lines.init(9, client_id=None, transactional_id="tx", producer_id=5, producer_epoch=2, error="NONE")

    assert watch().take(decode_line(line), repeated=True) == ProducerInit(
        *(lines.at_ms, 1, "User:alice", "", "10.0.0.7", "tx", 5, 2, 9, 0, "NONE", True)
    )


@pytest.mark.parametrize(
    "text", ["User:" + "x" * 1000, 'User:😀\n\x00 "quoted\\ ', "User:CN=a, O=b;principal:User:victim...", "\ud7ff"]
)
def test_principals_and_ids_of_any_text_are_taken_as_they_are(text: str) -> None:
    (event,) = take(watch(), ClassLines().batch(1, text, client_id=text, transactional_id=text))

    assert (event.principal, event.client_id, event.transactional_id) == (text, text, text)


def test_batches_of_the_taps_own_topic_make_no_events() -> None:
    of, lines = watch(), ClassLines()

    assert take(of, lines.batch(1, topic="events"), lines.batch(2, topic="__consumer_offsets")) != []
    assert (of.counters.events, of.counters.own_topics) == (1, 1)


def test_lines_that_come_again_make_no_events() -> None:
    of, lines = watch(), ClassLines()
    sent = [lines.start(), lines.batch(1), lines.batch(2)]

    assert [event.producer_id for event in take(of, *sent, *sent)] == [1, 2]
    assert of.counters.duplicates == 3


# Learning


def test_the_first_window_of_a_watch_is_learning_and_a_silence_is_no_gap() -> None:
    of, lines = watch(), ClassLines()
    take(of, lines.start())

    assert learned(of, lines.batch(1), lines.pass_s(3590).batch(1), lines.pass_s(11).batch(1)) == [True, True, False]
    assert learned(of, lines.pass_s(86_400).batch(1)) == [False]


@pytest.mark.parametrize("loss", ["a gap", "a broker that was killed", "a dropped line", "a file or a line"])
def test_a_loss_begins_a_new_watch(loss: str) -> None:
    lines = ClassLines()
    of = mature(lines)

    if loss == "a gap":
        lines.lose(4)
    elif loss == "a broker that was killed":
        take(of, lines.start())
    elif loss == "a dropped line":
        take(of, lines.alive(dropped_lines=1))
    else:
        of.lose()

    assert learned(of, lines.batch(1), lines.pass_s(3590).batch(1), lines.pass_s(11).batch(1)) == [True, True, False]
    assert of.counters.lost_lines == (4 if loss == "a gap" else 0)


def test_a_broker_that_shuts_down_and_starts_again_is_watched_on() -> None:
    lines = ClassLines()
    of = mature(lines)

    take(of, lines.stop(shutdown=True), lines.pass_s(7200).start())

    assert learned(of, lines.batch(1)) == [False]


def test_a_class_that_was_taken_out_is_told_and_its_watch_begins_anew_once_it_is_back() -> None:
    said, lines = list[str](), ClassLines()
    of = watch(said)
    take(of, lines.start())

    take(of, lines.stop(shutdown=False))
    problem = of.problem
    take(of, lines.pass_s(60).start())

    assert problem is not None
    assert said == [f"broker 1: {problem}"]
    assert "the class was unloaded from the broker" in problem
    assert of.problem is None
    assert learned(of, lines.batch(1)) == [True]


def test_an_id_that_the_brokers_held_is_learned_and_another_is_new() -> None:
    of, lines = watch(), ClassLines()
    take(of, lines.start())
    since_ms = of.learning.since_ms
    of.answers = KnownIdAnswers("1", KnownIds({"1": Watched(since_ms, since_ms + 1)}, array("q", [5]), since_ms + 2))

    found = take(of, lines.pass_s(1).batch(5), lines.batch(6))

    assert [(each.learning, each.asked_at_ms) for each in found] == [(True, None), (False, since_ms + 1)]


def test_a_run_of_the_tap_goes_on_in_the_middle_of_a_run_of_the_class() -> None:
    lines = ClassLines()
    saved, later, lost = mature(lines).saved(), watch(), watch()

    later.restore(saved)
    lost.restore(saved)

    assert learned(later, lines.batch(2)) == [False]
    assert learned(lost, lines.lose().batch(3)) == [True]


def test_a_saved_watch_does_not_change() -> None:
    lines = ClassLines()
    of = mature(lines)
    saved, number = of.saved(), lines.number

    take(of, lines.lose().batch(2), lines.batch(3))

    assert (saved.order.next, saved.order.gaps, saved.learning.lost) == (number + 1, [], False)
    assert saved.learning.newest_ms < of.learning.newest_ms


# The class


def test_a_class_that_can_see_nothing_is_said_once_until_it_changes() -> None:
    said, lines = list[str](), ClassLines()
    of = watch(said)
    blind = "Kafka 9.9.9 is not known"

    take(of, lines.start(problem=blind), lines.alive(problem=blind), lines.alive(), lines.alive(problem=blind))

    assert said == [f"broker 1: {blind}"] * 2
    assert of.problem == blind


def test_reports_of_the_class_about_itself_are_kept() -> None:
    of, lines = watch(), ClassLines()

    take(of, lines.start(), lines.alive(dropped_inits=4, ambiguous_inits=5, errors=6))

    assert of.state is not None
    assert (of.state.class_version, of.state.kafka_version) == ("0.3.0", "4.3.1")
    counters = of.counters
    assert (counters.dropped_inits, counters.ambiguous_inits, counters.class_errors) == (4, 5, 6)


@pytest.mark.parametrize(("other", "remedy"), [(LINE_FORMAT + 1, "upgrade the tap"), (LINE_FORMAT - 1, "the class")])
def test_a_class_of_another_format_ends_the_tap_with_the_remedy(other: int, remedy: str) -> None:
    with pytest.raises(
        TapError, match=rf"class in broker 1 \(version 0\.3\.0\) writes lines of format {other}.*{remedy}"
    ):
        take(watch(), ClassLines().start(format=other))


@given(
    st.lists(st.tuples(st.integers(0, 2**63 - 1), st.text(max_size=20), st.text(max_size=20)), min_size=1, max_size=5)
)
def test_events_are_those_of_the_lines_whatever_they_hold(batches: list[tuple[int, str, str]]) -> None:
    lines, of = ClassLines(), watch()

    found = take(of, *(lines.batch(pid, principal, client_id=client) for pid, principal, client in batches))

    assert [(event.producer_id, event.principal, event.client_id) for event in found] == [
        (pid, principal, client or None) for pid, principal, client in batches
    ]

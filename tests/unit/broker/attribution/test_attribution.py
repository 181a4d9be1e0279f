"""The lines are real ones; tests/broker/record_lines.py records them anew."""

import itertools
import math
from array import array
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.attribution.attribution import Attribution
from broker.attribution.bindings import Bindings
from broker.attribution.known_ids import Answers, KnownIds, Watched
from broker.attribution.owners import Owners
from broker.errors import TapError
from broker.log.log_layout import LogLine, parse_line
from broker.log.log_lines import is_init, is_init_result, is_produce
from wire.heartbeat import BorrowedId
from wire.records import Binding, ProduceEvent, ProducerIdBlock, ProducerInit, Record

LOGS = Path(__file__).parents[1]
RAW_LINES = (LOGS / "broker_lines.jsonl").read_bytes().splitlines()
LINES = [parse_line(line) for line in RAW_LINES]
OLD_LINES = [parse_line(line) for line in (LOGS / "broker_lines_3_9.jsonl").read_bytes().splitlines()]

HOUR_MS = 3_600_000


@pytest.fixture
def owners() -> Iterator[Owners]:
    with Bindings() as bindings:
        yield Owners(bindings)


@pytest.fixture
def attribution(owners: Owners) -> Attribution:
    return Attribution(1, owners, every_batch=True)


def produce_line() -> LogLine:
    return next(line for line in LINES if is_produce(line.message))


def state_line(*words: str) -> LogLine:
    return next(
        line for line in LINES if line.logger == "ProducerStateManager" and all(w in line.message for w in words)
    )


def changed(line: LogLine, old: str = "", new: str = "", *, thread: str | None = None) -> LogLine:
    assert old in line.message
    return LogLine(line.ts, thread or line.thread, line.logger, line.message.replace(old, new) if old else line.message)


def raw(line: LogLine) -> bytes:
    """As a line of settings that write no numbers."""
    return msgspec.json.encode(line)


def numbered_as(number: int, line: LogLine) -> bytes:
    return b'{"sn":%d,' % number + raw(line)[1:]


def feed_all(attribution: Attribution, lines: list[LogLine], now_s: float = 0.0) -> list[Record]:
    """The next lines of the broker, from its first one on."""
    order = attribution.kept_order()
    numbers = itertools.count(order.next if order else 1)
    return [record for line in lines for record in attribution.feed(numbered_as(next(numbers), line), now_s)]


def feed(attribution: Attribution, lines: list[LogLine]) -> list[ProduceEvent]:
    return [record for record in feed_all(attribution, lines) if isinstance(record, ProduceEvent)]


def test_the_recorded_log_is_attributed_exactly(owners: Owners) -> None:
    attribution = Attribution(7, owners)

    events = feed(attribution, LINES)

    by_producer = {event.producer_id: (event.principal, event.client_id) for event in events}
    assert by_producer[0] == ("User:alice", "alice-app")
    assert by_producer[1][0] == "User:mallory"
    assert by_producer[2] == ("User:alice", "alice-tx")
    assert by_producer[3] == by_producer[4] == ("User:alice", "java-app")
    assert {event.broker_id for event in events} == {7}
    assert owners.waiting() == []
    assert attribution.counters.borrowed == attribution.counters.bad_lines == 0


def test_the_recorded_log_of_kafka_3_9_is_attributed_exactly(attribution: Attribution, owners: Owners) -> None:
    events = feed(attribution, OLD_LINES)

    by_producer = {event.producer_id: event.principal for event in events}
    assert {by_producer[0], by_producer[3]} == {"User:alice"}
    assert {by_producer[1], by_producer[2]} == {"User:mallory"}
    assert owners.waiting() == []
    assert attribution.counters.bad_lines == 0


def test_each_appended_batch_is_one_event() -> None:
    with Bindings() as bindings:
        attribution = Attribution(1, Owners(bindings), every_batch=True)
        events = feed(attribution, [produce_line(), state_line("producer 0 ")] * 3)

    assert [event.producer_id for event in events] == [0, 0, 0]
    assert {event.timestamp_ms for event in events} == {state_line("producer 0 ").ts}


def test_a_repeat_within_a_second_is_left_out_and_counted(owners: Owners) -> None:
    attribution = Attribution(1, owners)
    request, batch = produce_line(), state_line("producer 0 ")
    second_later = LogLine(batch.ts + 1000, batch.thread, batch.logger, batch.message)
    other_client = changed(request, "clientId=alice-app", "clientId=other")

    events = feed(attribution, [request, batch, request, batch, other_client, batch, request, second_later])

    assert [(event.timestamp_ms - batch.ts, event.client_id) for event in events] == [
        (0, "alice-app"),
        (0, "other"),
        (1000, "alice-app"),
    ]
    assert attribution.counters.repeats == 1


def test_events_of_a_newly_watched_broker_are_marked_and_later_ones_are_not(owners: Owners) -> None:
    attribution = Attribution(1, owners, every_batch=True, learn_ms=3_600_000)
    later = [LogLine(line.ts + 3_600_000, line.thread, line.logger, line.message) for line in LINES]

    assert {event.learning for event in feed(attribution, LINES)} == {True}
    assert {event.learning for event in feed(attribution, later)} == {False}


def asked_marks(attribution: Attribution, known: KnownIds) -> dict[int, set[tuple[bool, int | None]]]:
    """Learning and `asked_at_ms` of the recorded log's events, by producer id, with an answer given before them."""
    attribution.learning.observe(LINES[0].ts - 1000, HOUR_MS)
    attribution.answers = Answers("a", known)
    found: dict[int, set[tuple[bool, int | None]]] = {}
    for event in feed(attribution, LINES):
        found.setdefault(event.producer_id, set()).add((event.learning, event.asked_at_ms))
    return found


def answer(ids: list[int], answered_at_ms: int, since_ms: int = LINES[0].ts - 1000) -> KnownIds:
    return KnownIds({"a": Watched(since_ms, 77_000)}, array("q", ids), answered_at_ms)


def test_an_id_that_brokers_held_is_learned_and_any_other_is_new(owners: Owners) -> None:
    marks = asked_marks(Attribution(1, owners, learn_ms=HOUR_MS), answer([0, 2], LINES[0].ts - 1))

    assert marks[0] == marks[2] == {(True, None)}
    assert marks[1] == marks[3] == {(False, 77_000)}


def test_a_line_older_than_the_answer_is_learned_since_its_topic_may_be_gone(owners: Owners) -> None:
    marks = asked_marks(Attribution(1, owners, learn_ms=HOUR_MS), answer([0], LINES[-1].ts + 1))

    assert set.union(*marks.values()) == {(True, None)}


def test_an_answer_for_another_watch_says_nothing(owners: Owners) -> None:
    marks = asked_marks(Attribution(1, owners, learn_ms=HOUR_MS), answer([0], LINES[0].ts - 1, since_ms=1))

    assert set.union(*marks.values()) == {(True, None)}


def test_a_gap_within_lines_that_are_read_at_once_ends_what_an_answer_says(owners: Owners) -> None:
    attribution = Attribution(1, owners, learn_ms=HOUR_MS)
    known = answer([], LINES[0].ts - 1)
    attribution.learning.observe(LINES[0].ts - 1000, HOUR_MS)
    attribution.answers = Answers("a", known)

    attribution.learning.restart()

    assert {event.learning for event in feed(attribution, LINES)} == {True}


def test_after_a_window_an_answer_says_nothing_more(owners: Owners) -> None:
    attribution = Attribution(1, owners, learn_ms=HOUR_MS)
    began_ms = LINES[0].ts - 2 * HOUR_MS
    for at_ms in range(began_ms, LINES[0].ts, HOUR_MS // 2):
        attribution.learning.observe(at_ms, HOUR_MS)
    attribution.answers = Answers("a", answer([], began_ms, began_ms))

    assert {(event.learning, event.asked_at_ms) for event in feed(attribution, LINES)} == {(False, None)}


def test_the_answer_to_a_request_counts_after_a_window_too(owners: Owners) -> None:
    attribution = Attribution(1, owners, learn_ms=0)
    attribution.answers = Answers("a", None, (answer([0], LINES[0].ts - 1),))

    marks = {(event.producer_id, event.asked_at_ms) for event in feed(attribution, LINES)}

    assert (0, None) in marks
    assert {asked_at_ms for producer_id, asked_at_ms in marks if producer_id} == {77_000}


def test_a_new_id_is_charged_though_its_owner_is_not_known(owners: Owners) -> None:
    attribution = Attribution(1, owners, learn_ms=HOUR_MS)
    line = state_line("producer 0 ")
    attribution.learning.observe(line.ts - 1000, HOUR_MS)
    attribution.answers = Answers("a", answer([], line.ts - 1, line.ts - 1000))

    feed_all(attribution, [line])

    assert [event.learning for event in owners.expire(math.inf)] == [False]


@pytest.mark.parametrize("learn_ms", [0, HOUR_MS])
def test_an_event_that_waits_for_its_owner_stays_marked(owners: Owners, learn_ms: int) -> None:
    feed_all(Attribution(1, owners, learn_ms=learn_ms), [state_line("producer 0 ")])

    assert [event.learning for event in owners.expire(math.inf)] == [learn_ms > 0]


def test_an_event_names_topic_partition_and_epoch(owners: Owners) -> None:
    (event,) = feed(Attribution(3, owners), [produce_line(), state_line("producer 0 ")])

    assert event == ProduceEvent(state_line("producer 0 ").ts, "User:alice", 0, 0, 3, "orders", 0, "alice-app", None)


def test_a_replayed_batch_is_counted_and_is_no_event(attribution: Attribution) -> None:
    replayed = [line for line in LINES if line.thread.startswith("log-recovery-")]

    assert replayed
    assert feed(attribution, [produce_line(), *replayed]) == []
    assert attribution.counters.recovered == len(replayed)


def test_a_batch_copied_by_a_follower_is_counted_and_is_no_event(attribution: Attribution) -> None:
    # Not recorded: it takes a second broker. The thread's name is that of Kafka 4.3.1.
    copied = changed(state_line("producer 0 "), thread="ReplicaFetcherThread-0-2")

    assert feed(attribution, [produce_line(), copied, changed(copied, thread="other")]) == []
    assert (attribution.counters.followers, attribution.counters.other_threads) == (1, 1)


def test_the_end_of_a_transaction_is_counted_and_is_no_event(attribution: Attribution) -> None:
    marker = state_line("producer 2 ", "firstSequence=-1")

    assert feed(attribution, [*LINES[:12], marker]) == feed(attribution, LINES[:12])
    assert attribution.counters.markers == 1


def test_our_own_and_internal_topics_are_dropped(attribution: Attribution) -> None:
    line = state_line("producer 0 ")
    names = ("produce-events", "broker-logs", "tap-status", "produce-failures", "__internal")
    own = [changed(line, "=orders-0]", f"={topic}-0]") for topic in names]

    assert feed(attribution, [produce_line(), *own]) == []
    assert attribution.counters.own_topics == 5


@pytest.mark.parametrize("space", ["", " "], ids=["fast", "decoded"])
def test_an_id_that_is_borrowed_after_the_end_of_its_transaction_is_charged_to_who_uses_it(
    space: str, attribution: Attribution, owners: Owners
) -> None:
    owners.bind(Binding(0, 0, "User:victim", "v", "victims-tx", 1, 1))
    # As on 4.3.1: the epoch of the coordinator stays with the id, in a partition in which its transaction has ended.
    batch = changed(state_line("producer 0 "), "coordinatorEpoch=-1", "coordinatorEpoch=0")

    records = [*attribution.feed(numbered_as(1, changed(produce_line(), "User:alice", "User:mallory")), 0.0)]
    records += attribution.feed(numbered_as(2, batch).replace(b'"ts":', b'"ts":' + space.encode()), 0.0)

    assert [event.principal for event in records if isinstance(event, ProduceEvent)] == ["User:mallory"]
    assert attribution.counters.borrowed == 1


def test_the_user_of_a_borrowed_producer_id_is_charged_and_the_loan_reported(attribution: Attribution) -> None:
    mallorys = [line for line in LINES if "User:mallory" in line.message and is_produce(line.message)]
    borrowed = changed(state_line("producer 1 "), "producer 1 ", "producer 0 ")

    events = feed(attribution, [*[line for line in LINES[:4] if not is_produce(line.message)], *mallorys, borrowed])

    assert [(event.producer_id, event.principal) for event in events] == [(0, "User:mallory")]
    assert attribution.counters.borrowed == 1
    assert list(attribution.borrowed) == [BorrowedId(0, "User:alice", "User:mallory")]


def test_a_batch_of_a_transaction_follows_the_binding_and_not_the_thread(attribution: Attribution) -> None:
    stranger = changed(produce_line(), "User:alice", "User:mallory")
    batch = state_line("producer 4 ", "OptionalLong[")
    inits = [line for line in LINES if is_init(line.message) or is_init_result(line.message)]

    events = feed(attribution, [*inits, changed(stranger, thread=batch.thread), batch])

    assert [(event.principal, event.transactional_id) for event in events] == [("User:alice", "java-tx")]


def test_a_second_batch_for_a_partition_is_not_that_of_the_request(attribution: Attribution, owners: Owners) -> None:
    # A request that mixes both kinds of batches has all of them appended later, on a thread that is free.
    batch = state_line("producer 0 ")

    events = feed(attribution, [produce_line(), batch, changed(batch, "producer 0 ", "producer 55 ")])

    assert [event.producer_id for event in events] == [0]
    assert [event.producer_id for event in owners.waiting()] == [55]


def test_a_batch_after_another_request_of_its_thread_is_not_that_of_the_first(
    attribution: Attribution, owners: Owners
) -> None:
    # Made by hand: our log settings leave such lines out, others do not.
    other = changed(produce_line(), "apiKey=PRODUCE", "apiKey=WRITE_TXN_MARKERS")

    assert feed(attribution, [produce_line(), other, state_line("producer 0 ")]) == []
    assert len(owners.waiting()) == 1


def test_a_forwarded_request_is_not_taken_for_one_of_a_client(attribution: Attribution, owners: Owners) -> None:
    # Made by hand after Kafka's RequestChannel: brokers forward to controllers, which append nothing for clients.
    forwarded = changed(produce_line(), "request:", "request:Forwarded request: RequestContext(header=x) ")

    assert feed(attribution, [forwarded, state_line("producer 0 ")]) == []
    assert len(owners.waiting()) == 1


@pytest.mark.parametrize(
    "principal",
    ["User:ANONYMOUS", 'User:CN=a b,OU=x,O="y"', "User:CN=a;b,C=DE", "User:ann\u00e9", "User:a,principal:User:b"],
)
def test_principals_of_any_form_are_read_whole(principal: str, attribution: Attribution) -> None:
    # Made by hand: what a certificate or an OAuth server may say.
    request = changed(produce_line(), "principal:User:alice", f"principal:{principal}")

    assert [event.principal for event in feed(attribution, [request, state_line("producer 0 ")])] == [principal]


def test_what_cannot_be_placed_waits_and_goes_out_once_as_unknown(attribution: Attribution, owners: Owners) -> None:
    other_partition = changed(produce_line(), "orders-0=", "orders-1=")

    assert feed(attribution, [state_line("producer 0 "), other_partition, state_line("producer 0 ")]) == []
    assert feed(attribution, [produce_line(), state_line("producer 4 ", "OptionalLong[")]) == []
    events = owners.expire(math.inf)

    assert [(event.principal, event.client_id) for event in events] == [("unknown", None)] * 3
    assert owners.counters.unplaced == 3
    assert owners.expire(math.inf) == []


def test_a_batch_that_waited_goes_out_with_the_principal_of_its_answer(attribution: Attribution) -> None:
    batch = state_line("producer 4 ", "OptionalLong[")
    inits = [line for line in LINES if "java-tx" in line.message and not is_produce(line.message)]

    records = feed_all(attribution, [batch, *inits])

    assert [type(record) for record in records] == [ProducerInit, Binding, ProduceEvent]
    assert isinstance(records[2], ProduceEvent)
    assert (records[2].principal, records[2].timestamp_ms, records[2].correction) == ("User:alice", batch.ts, False)


def test_an_answer_is_written_with_its_request_and_the_clients_address(attribution: Attribution) -> None:
    failed, bound, binding = [
        record for record in feed_all(attribution, LINES[:4]) if not isinstance(record, ProduceEvent)
    ]

    assert failed == ProducerInit(
        LINES[1].ts, 1, "User:alice", "alice-app", "127.0.0.1", None, -1, -1, -1, -1, "COORDINATOR_LOAD_IN_PROGRESS"
    )
    assert isinstance(bound, ProducerInit)
    assert (bound.result_producer_id, bound.result_producer_epoch, bound.error) == (0, 0, "NONE")
    assert binding == Binding(0, 0, "User:alice", "alice-app", None, 1, LINES[3].ts)


def test_an_answer_with_an_error_binds_nothing(attribution: Attribution, owners: Owners) -> None:
    feed(attribution, LINES[:2])

    assert owners.find(-1) is None
    assert attribution.counters.bindings == 0


def test_a_transactional_id_that_imitates_an_answer_binds_only_the_true_producer_id(
    attribution: Attribution, owners: Owners
) -> None:
    feed(attribution, LINES)

    assert any("InitProducerIdResult(77,0,NONE)" in line.message for line in LINES)
    assert owners.find(77) is None
    # The line about the end of the transaction repeats the imitation.
    assert attribution.counters.unmatched_results == 1
    bound = owners.find(2)
    assert bound is not None
    assert bound.transactional_id is not None
    assert bound.transactional_id.startswith("t\n")


REQUEST = next(line for line in LINES if is_init(line.message) and "'java-tx'" in line.message)
ANSWER = next(line for line in LINES if is_init_result(line.message) and "java-tx" in line.message)


def asked(client_id: str, transactional_id: str, user: str) -> LogLine:
    # The transactional id last, or what it imitates would be replaced in it.
    message = REQUEST.message.replace("User:alice", f"User:{user}")
    message = message.replace("=java-app", f"={client_id}", 1).replace("'java-tx'", f"'{transactional_id}'", 1)
    return LogLine(REQUEST.ts, REQUEST.thread, REQUEST.logger, message)


def answered(client_id: str, transactional_id: str, producer_id: int) -> LogLine:
    message = ANSWER.message.replace("java-app", client_id).replace("java-tx", transactional_id)
    return LogLine(ANSWER.ts, "other", ANSWER.logger, message.replace("Result(4,", f"Result({producer_id},", 1))


def test_crafted_texts_take_no_producer_id_from_its_owner(attribution: Attribution, owners: Owners) -> None:
    owners.bind(Binding(777, 0, "User:alice", "app", "tx", 1, 1))
    middle = "foo's InitProducerIdRequest with result InitProducerIdResult(5,0,NONE) from client bar"
    imitation = "x's InitProducerIdRequest with result InitProducerIdResult(777,9,NONE) from client foo"

    # Both are mallory's; the answer to the second reads as one to the first, too.
    feed(attribution, [asked(middle, "x", "mallory"), asked("bar", imitation, "mallory")])
    end = "'s InitProducerIdRequest with result InitProducerIdResult(5,0,NONE) from client bar."
    message = f"[KafkaApi-1] Completed {imitation}{end}"
    feed(attribution, [LogLine(1, "t", "KafkaApis", message)])

    alices, mallorys = owners.find(777), owners.find(5)
    assert alices is not None
    assert alices.principal == "User:alice"
    assert mallorys is not None
    assert mallorys.principal == "User:mallory"
    assert attribution.counters.crafted_inits == 2


# What imitates the parts of the lines; surrogates cannot come out of a UTF-8 file.
PARTS = [
    "'",
    "null",
    ", correlationId=1, headerVersion=2) -- InitProducerIdRequestData(transactionalId='",
    ", correlationId=1, headerVersion=2) -- InitProducerIdRequestData(transactionalId=null",
    ", transactionTimeoutMs=1, producerId=1, producerEpoch=1)",
    "'s InitProducerIdRequest with result InitProducerIdResult(777,0,NONE) from client ",
    " from connection 1:1-2:2-3;securityProtocol:SSL,principal:User:alice",
    '"}\n{"ts":1,"thread":"t","logger":"KafkaApis","message":"',
]
CRAFTED = st.lists(
    st.sampled_from(PARTS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=5), max_size=9
).map("".join)


@given(client_id=CRAFTED, transactional_id=CRAFTED)
@example(client_id=PARTS[2] * 20, transactional_id=PARTS[2] * 20)
def test_no_text_of_a_client_hides_whom_its_producer_id_was_handed_out_to(
    client_id: str, transactional_id: str
) -> None:
    with Bindings() as bindings:
        owners = Owners(bindings)
        attribution = Attribution(1, owners)
        victims = [asked("victim", "victims-tx", "alice"), answered("victim", "victims-tx", 777)]

        feed(attribution, [victims[0], asked(client_id, transactional_id, "mallory")])
        feed(attribution, [answered(client_id, transactional_id, 5), victims[1]])

        alices, mallorys = owners.find(777), owners.find(5)

    assert alices is not None
    assert alices.principal == "User:alice"
    assert mallorys is not None
    assert mallorys.principal == "User:mallory"


def test_a_hostile_megabyte_takes_no_more_time_than_its_length(attribution: Attribution) -> None:
    # Would take hours if the time grew with the square.
    for part in PARTS:
        text = part * (1_000_000 // len(part))
        feed(
            attribution,
            [changed(produce_line(), "alice-app", text), asked(text, "tx", "mallory"), state_line("producer 0 ")],
        )

    assert attribution.counters.events == len(PARTS)


def test_an_answer_without_its_request_is_counted(attribution: Attribution, owners: Owners) -> None:
    feed(attribution, [line for line in LINES if is_init_result(line.message)][1:2])

    assert owners.find(0) is None
    assert attribution.counters.unmatched_results == 1


def test_a_cut_message_is_counted_as_bad(attribution: Attribution) -> None:
    line = state_line("producer 0 ")

    assert feed(attribution, [LogLine(line.ts, line.thread, line.logger, line.message[:60])]) == []
    assert attribution.counters.bad_lines == 1


def test_a_request_whose_principal_was_cut_is_nobodys(attribution: Attribution, owners: Owners) -> None:
    line = produce_line()
    cut = LogLine(line.ts, line.thread, line.logger, line.message[:-2] + "...")

    assert feed(attribution, [cut, state_line("producer 0 ")]) == []
    assert [event.principal for event in owners.expire(math.inf)] == ["unknown"]


def test_a_request_whose_line_a_crash_cut_is_nobodys(attribution: Attribution, owners: Owners) -> None:
    torn = raw(produce_line())[:-40] + raw(changed(produce_line(), "User:alice", "User:mallory"))

    attribution.feed(torn, 0.0)

    assert feed(attribution, [state_line("producer 0 ")]) == []
    assert attribution.counters.bad_lines == 1
    assert len(owners.waiting()) == 1


@pytest.mark.parametrize("lines", [LINES, OLD_LINES], ids=["4.3", "3.9"])
def test_the_fast_way_says_the_same_as_the_decoded_one(lines: list[LogLine]) -> None:
    with Bindings() as bindings, Bindings() as others:
        fast, decoded = Attribution(1, Owners(bindings)), Attribution(1, Owners(others))
        # A space more, and the line has to be decoded.
        records = [decoded.feed(raw(line).replace(b'{"ts":', b'{"ts": ', 1), 0.0) for line in lines]

        assert [fast.feed(raw(line), 0.0) for line in lines] == records
        assert fast.counters == decoded.counters


def test_what_is_kept_over_a_restart_tells_the_next_run_what_threads_worked_on(owners: Owners) -> None:
    first, second = Attribution(1, owners), Attribution(1, owners)
    feed(first, [produce_line(), REQUEST])

    second.restore(first.kept_lines(), first.kept_order(), 0.0)

    assert [event.principal for event in feed(second, [ANSWER, state_line("producer 0 ")])] == ["User:alice"]
    assert owners.find(4) is not None


def test_lines_of_two_brokers_are_not_taken_for_those_of_one(owners: Owners) -> None:
    attribution = Attribution(None, owners)

    (event,) = feed(attribution, [produce_line(), state_line("producer 0 ")])

    assert event.broker_id == attribution.broker_id == 1
    with pytest.raises(TapError, match=r"lines of brokers 1 and 2 .* a key, a header or a field broker_id"):
        feed(attribution, [changed(produce_line(), "[KafkaApi-1]", "[KafkaApi-2]")])


def test_a_controllers_request_log_tells_the_blocks_of_producer_ids(attribution: Attribution) -> None:
    # As written by Kafka 4.3.1 with kafka.request.logger at DEBUG, without what is not read.
    message = (
        'Completed request:{"isForwarded":false,"requestHeader":{"requestApiKey":67,"requestApiVersion":0,'
        '"correlationId":3,"clientId":"1","requestApiKeyName":"ALLOCATE_PRODUCER_IDS"},"request":{"brokerId":1,'
        '"brokerEpoch":12},"response":{"throttleTimeMs":0,"errorCode":0,"producerIdStart":5000,"producerIdLen":1000},'
        '"connection":"127.0.0.1:56591-127.0.0.1:59154-2-0","totalTimeMs":34.595,"securityProtocol":"PLAINTEXT",'
        '"principal":"User:ANONYMOUS"}'
    )

    records = feed_all(attribution, [LogLine(7, "data-plane-kafka-request-handler-1", "logger", message)])

    assert records == [ProducerIdBlock(7, 1, 12, 5000, 1000, 0, 0)]
    assert attribution.counters.id_blocks == 1


def test_a_batch_behind_a_missing_line_is_not_that_of_the_request_before_it(
    attribution: Attribution, owners: Owners
) -> None:
    # The victim's request made no batch with an id; the line of who sent this one is missing.
    records = [*attribution.feed(numbered_as(1, produce_line()), 0.0)]
    records += attribution.feed(numbered_as(3, state_line("producer 0 ")), 0.0)
    records += attribution.expire(1.0)

    assert records == []
    assert [event.producer_id for event in owners.waiting()] == [0]
    assert attribution.counters.lost_lines == 1


def test_a_batch_behind_a_missing_line_goes_to_whom_its_id_was_handed_out(
    attribution: Attribution, owners: Owners
) -> None:
    owners.bind(Binding(0, 0, "User:mallory", "m", None, 1, 1))
    attribution.feed(numbered_as(1, produce_line()), 0.0)
    attribution.feed(numbered_as(3, state_line("producer 0 ")), 0.0)

    assert [event.principal for event in attribution.expire(1.0) if isinstance(event, ProduceEvent)] == ["User:mallory"]


def test_without_numbers_a_batch_that_thread_and_binding_dispute_is_nobodys(
    attribution: Attribution, owners: Owners
) -> None:
    owners.bind(Binding(0, 0, "User:mallory", "m", None, 1, 1))

    attribution.feed(raw(produce_line()), 0.0)
    events = attribution.feed(raw(state_line("producer 0 ")), 0.0)

    assert [event.principal for event in events if isinstance(event, ProduceEvent)] == ["unknown"]
    assert attribution.counters.borrowed == 1


def test_what_waits_for_a_missing_line_is_kept_over_a_restart(owners: Owners) -> None:
    first, second = Attribution(1, owners), Attribution(1, owners)
    first.feed(numbered_as(1, produce_line()), 0.0)
    first.feed(numbered_as(3, state_line("producer 0 ")), 0.0)

    second.restore(first.kept_lines(), first.kept_order(), 0.0)

    # The line that was missing is of no other thread: the request before is still that of the batch.
    other = changed(produce_line(), thread="data-plane-kafka-request-handler-99")
    events = second.feed(numbered_as(2, other), 0.0)
    assert [event.principal for event in events if isinstance(event, ProduceEvent)] == ["User:alice"]


BATCH = state_line("producer 4 ", "OptionalLong[")
VICTIMS, MALLORYS = asked("app", "tx", "victim"), asked("app", "tx", "mallory")


LOSSES = {
    "its line is lost": [(1, produce_line()), (3, MALLORYS)],
    "a line is lost behind it": [(1, VICTIMS), (3, MALLORYS)],
    "a line comes twice": [(1, VICTIMS), (2, MALLORYS), (2, MALLORYS)],
}


@pytest.mark.parametrize("before", LOSSES.values(), ids=LOSSES)
def test_an_answer_to_a_request_that_nobody_saw_is_nobodys(
    before: list[tuple[int, LogLine]], attribution: Attribution, owners: Owners
) -> None:
    # Mallory's was denied; the victim's was lost, or forgotten with what was.
    last = before[-1][0]
    for number, line in (*before, (last + 1, answered("app", "tx", 4)), (last + 2, BATCH)):
        attribution.feed(numbered_as(number, line), 0.0)
    attribution.expire(10.0)

    assert owners.find(4) is None
    assert [event.principal for event in owners.expire(math.inf)] == ["unknown"]


def test_a_minute_after_a_loss_answers_count_again(attribution: Attribution, owners: Owners) -> None:
    def later(line: LogLine, ms: int) -> LogLine:
        return LogLine(REQUEST.ts + ms, line.thread, line.logger, line.message)

    attribution.feed(numbered_as(1, VICTIMS), 0.0)
    attribution.feed(numbered_as(3, later(produce_line(), 0)), 0.0)
    attribution.expire(10.0)
    attribution.feed(numbered_as(4, later(MALLORYS, 60_000)), 10.0)
    attribution.feed(numbered_as(5, later(answered("app", "tx", 4), 60_000)), 10.0)

    bound = owners.find(4)
    assert bound is not None
    assert bound.principal == "User:mallory"


def test_a_broker_that_starts_again_answers_what_stands_behind_its_first_line(
    attribution: Attribution, owners: Owners
) -> None:
    feed(attribution, [produce_line(), produce_line()])
    for number, line in enumerate((MALLORYS, answered("app", "tx", 4)), 1):
        attribution.feed(numbered_as(number, line), 0.0)

    assert owners.find(4) is not None


@pytest.mark.parametrize("size", [10, 9_000, 60_000])
def test_requests_that_are_too_big_to_be_kept_over_a_restart_let_nobody_else_have_their_answers(
    size: int, owners: Owners
) -> None:
    first, second, third = (Attribution(1, owners) for _ in range(3))
    feed(first, [VICTIMS, *[asked("app", f"{number}" + "x" * size, "mallory") for number in range(8)]])
    second.restore(first.kept_lines(), first.kept_order(), 0.0)
    third.restore(second.kept_lines(), second.kept_order(), 0.0)

    feed(third, [MALLORYS, answered("app", "tx", 4)])

    assert owners.find(4) is None


@pytest.mark.parametrize("settings", ["numbered", "without numbers"])
def test_a_line_that_is_cut_wherever_lets_nobody_have_what_came_behind_it(settings: str) -> None:
    lines = [produce_line(), changed(produce_line(), "User:alice", "User:mallory"), state_line("producer 0 ")]
    written = [
        numbered_as(number, line) if settings == "numbered" else raw(line) for number, line in enumerate(lines, 1)
    ]
    for length in range(written[1].index(b'ts"'), len(written[1])):
        with Bindings() as bindings:
            owners = Owners(bindings)
            attribution = Attribution(1, owners)
            for line in (written[0], written[1][:length], written[2]):
                assert list(attribution.feed(line, 0.0)) == []
            assert [event.principal for event in owners.expire(math.inf)] == ["unknown"]


def test_the_beginning_of_a_line_joined_to_the_end_of_another_gives_nobody_the_others_batch() -> None:
    first, batch = numbered_as(1, produce_line()), numbered_as(2, state_line("producer 0 "))
    other = numbered_as(4, changed(state_line("producer 0 "), "producer 0 ", "producer 1 ", thread="other"))
    end = other[other.index(b'","message":"') :]
    # What is cut behind that is read as the first batch, which it is.
    for length in range(batch.index(b"[Producer") + 1, batch.index(b"coordinatorEpoch")):
        with Bindings() as bindings:
            attribution = Attribution(1, Owners(bindings))
            assert [*attribution.feed(first, 0.0), *attribution.feed(batch[:length] + end, 0.0)] == []
            assert attribution.counters.bad_lines == 1


def test_a_line_that_comes_late_says_nothing_about_what_its_thread_does_now(
    attribution: Attribution, owners: Owners
) -> None:
    attribution.feed(numbered_as(1, produce_line()), 0.0)
    attribution.feed(numbered_as(3, produce_line()), 0.0)
    attribution.expire(10.0)
    attribution.feed(numbered_as(2, changed(produce_line(), "User:alice", "User:mallory")), 10.0)
    attribution.feed(numbered_as(4, state_line("producer 0 ")), 10.0)

    assert [event.principal for event in owners.expire(math.inf)] == ["unknown"]


@pytest.mark.parametrize("digits", [19, 20, 5_000])
def test_a_number_that_is_no_producer_id_binds_nothing_and_raises_nothing(
    digits: int, attribution: Attribution, owners: Owners
) -> None:
    crafted = f"x's InitProducerIdRequest with result InitProducerIdResult({'9' * digits},0,NONE) from client y"

    # The transactional id of the other reading of the answer: without it that reading would have no request.
    other = "tx's InitProducerIdRequest with result InitProducerIdResult(5,0,NONE) from client x"

    feed(attribution, [asked("y", other, "mallory"), asked(crafted, "tx", "mallory"), answered(crafted, "tx", 5)])

    mallorys = owners.find(5)
    assert mallorys is not None
    assert mallorys.principal == "User:mallory"
    assert attribution.counters.bindings == 1

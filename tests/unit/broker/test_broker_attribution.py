"""The lines are real ones; tests/broker/record_lines.py records them anew."""

from pathlib import Path

from broker.attribution import Attribution, ProduceEvent
from broker.log_lines import LogLine, is_init, is_init_result, is_produce, parse_line

LINES = [parse_line(line) for line in Path(__file__).with_name("broker_lines.jsonl").read_bytes().splitlines()]


def produce_line() -> LogLine:
    return next(line for line in LINES if is_produce(line.message))


def state_line(*words: str) -> LogLine:
    return next(
        line for line in LINES if line.logger == "ProducerStateManager" and all(w in line.message for w in words)
    )


def changed(line: LogLine, old: str = "", new: str = "", *, thread: str | None = None) -> LogLine:
    assert old in line.message
    return LogLine(line.ts, thread or line.thread, line.logger, line.message.replace(old, new) if old else line.message)


def feed(attribution: Attribution, lines: list[LogLine]) -> list[ProduceEvent]:
    return [event for line in lines if (event := attribution.feed(line)) is not None]


def test_the_recorded_log_is_attributed_exactly() -> None:
    attribution = Attribution(broker_id=7)

    events = feed(attribution, LINES)

    by_producer = {event.producer_id: (event.principal, event.client_id) for event in events}
    assert by_producer[0] == ("User:alice", "alice-app")
    assert by_producer[1][0] == "User:mallory"
    assert by_producer[2] == ("User:alice", "alice-tx")
    assert by_producer[3] == by_producer[4] == ("User:alice", "java-app")
    assert {event.broker_id for event in events} == {7}
    assert attribution.counters.unplaced == attribution.counters.borrowed == attribution.counters.bad_lines == 0


def test_each_appended_batch_is_one_event_also_when_it_repeats() -> None:
    attribution = Attribution(1)
    line = state_line("producer 0 ")

    events = feed(attribution, [produce_line(), line, line, line])

    assert [event.producer_id for event in events] == [0, 0, 0]
    assert {event.timestamp_ms for event in events} == {line.ts}


def test_an_event_names_topic_partition_and_epoch() -> None:
    (event,) = feed(Attribution(3), [produce_line(), state_line("producer 0 ")])

    assert event == ProduceEvent(state_line("producer 0 ").ts, "User:alice", 0, 0, 3, "orders", 0, "alice-app", None)


def test_a_replayed_batch_is_counted_and_is_no_event() -> None:
    attribution = Attribution(1)
    replayed = [line for line in LINES if line.thread.startswith("log-recovery-")]

    assert replayed
    assert feed(attribution, [produce_line(), *replayed]) == []
    assert attribution.counters.recovered == len(replayed)


def test_a_batch_copied_by_a_follower_is_counted_and_is_no_event() -> None:
    # Not recorded: it takes a second broker. The thread's name is that of Kafka 4.3.1.
    attribution = Attribution(1)
    copied = changed(state_line("producer 0 "), thread="ReplicaFetcherThread-0-2")

    assert feed(attribution, [produce_line(), copied, changed(copied, thread="other")]) == []
    assert (attribution.counters.followers, attribution.counters.other_threads) == (1, 1)


def test_our_own_and_internal_topics_are_dropped() -> None:
    attribution = Attribution(1)
    line = state_line("producer 0 ")
    own = [changed(line, "=orders-0]", f"={topic}-0]") for topic in ("produce-events", "broker-logs", "__internal")]

    assert feed(attribution, [produce_line(), *own]) == []
    assert attribution.counters.own_topics == 3


def test_the_user_of_a_borrowed_producer_id_is_charged_and_the_loan_reported() -> None:
    attribution = Attribution(1)
    mallorys = [line for line in LINES if "User:mallory" in line.message and is_produce(line.message)]
    borrowed = changed(state_line("producer 1 "), "producer 1 ", "producer 0 ")

    events = feed(attribution, [*[line for line in LINES[:4] if not is_produce(line.message)], *mallorys, borrowed])

    assert attribution.binding(0) is not None
    assert [(event.producer_id, event.principal) for event in events] == [(0, "User:mallory")]
    assert attribution.counters.borrowed == 1


def test_a_batch_of_a_transaction_follows_the_binding_and_not_the_thread() -> None:
    attribution = Attribution(1)
    stranger = changed(produce_line(), "User:alice", "User:mallory")
    batch = state_line("producer 4 ", "OptionalLong[")
    inits = [line for line in LINES if is_init(line.message) or is_init_result(line.message)]

    events = feed(attribution, [*inits, changed(stranger, thread=batch.thread), batch])

    assert [(event.principal, event.transactional_id) for event in events] == [("User:alice", "java-tx")]


def test_what_cannot_be_placed_goes_out_as_unknown() -> None:
    attribution = Attribution(1)
    other_partition = changed(produce_line(), "orders-0=", "orders-1=")

    events = feed(attribution, [state_line("producer 0 "), other_partition, state_line("producer 0 ")])
    events += feed(attribution, [produce_line(), state_line("producer 4 ", "OptionalLong[")])

    assert [event.principal for event in events] == ["unknown"] * 3
    assert {event.client_id for event in events} == {None}
    assert attribution.counters.unplaced == 3


def test_an_answer_with_an_error_binds_nothing() -> None:
    attribution = Attribution(1)

    feed(attribution, LINES[:2])

    assert "COORDINATOR_LOAD_IN_PROGRESS" in LINES[1].message
    assert attribution.binding(-1) is None
    assert attribution.counters.bindings == 0


def test_a_transactional_id_that_imitates_an_answer_binds_only_the_true_producer_id() -> None:
    attribution = Attribution(1)

    feed(attribution, LINES)

    assert any("InitProducerIdResult(77,0,NONE)" in line.message for line in LINES)
    assert attribution.binding(77) is None
    # The line about the end of the transaction repeats the imitation.
    assert attribution.counters.unmatched_results == 1
    bound = attribution.binding(2)
    assert bound is not None
    assert bound.transactional_id is not None
    assert bound.transactional_id.startswith("t\n")


def test_an_answer_without_its_request_is_counted() -> None:
    attribution = Attribution(1)

    feed(attribution, [line for line in LINES if is_init_result(line.message)][1:2])

    assert attribution.binding(0) is None
    assert attribution.counters.unmatched_results == 1


def test_a_flood_of_producer_ids_does_not_unbind_one_at_work() -> None:
    attribution = Attribution(1, max_bindings=10)
    inits = [line for line in LINES if "java-tx" in line.message and not is_produce(line.message)]
    batch = state_line("producer 4 ", "OptionalLong[")
    feed(attribution, inits)
    request, answer = [line for line in LINES[:4] if is_init(line.message) or is_init_result(line.message)][2:4]

    for producer_id in range(1000, 1100):
        feed(attribution, [request, changed(answer, "Result(0,", f"Result({producer_id},")])
        (event,) = feed(attribution, [batch])
        assert event.principal == "User:alice"

    assert attribution.binding(1099) is not None
    assert attribution.binding(1000) is None


def test_a_cut_message_is_counted_as_bad() -> None:
    attribution = Attribution(1)
    line = state_line("producer 0 ")

    assert feed(attribution, [LogLine(line.ts, line.thread, line.logger, line.message[:60])]) == []
    assert attribution.counters.bad_lines == 1

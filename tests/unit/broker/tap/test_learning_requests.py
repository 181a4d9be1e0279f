from collections.abc import Sequence

import msgspec
import pytest

from broker.errors import TopicError
from broker.tap import learning_requests
from broker.tap.learning_requests import LearningRequests
from wire.records import LearningRequest

NOW_MS = 1_790_000_000_000
HOUR_MS = 3_600_000


class Record:
    """A record of the topic, as the reader returns it."""

    def __init__(self, key: bytes | None, value: bytes | None) -> None:
        self.key, self.value = lambda: key, lambda: value


def request(stream: str, from_ms: int, until_ms: int | None = None) -> Record:
    body = LearningRequest(from_ms, from_ms + HOUR_MS if until_ms is None else until_ms)
    return Record(stream.encode(), msgspec.json.encode(body))


class Topic:
    def __init__(self) -> None:
        self.records: list[Record] = []
        self.error = ""
        self.opened = self.closed = 0

    def open(self, *_: object) -> "Topic":
        self.opened += 1
        return self

    def poll(self) -> Sequence[Record]:
        if self.error:
            raise TopicError(self.error)
        records, self.records = self.records, []
        return records

    read_to_end = poll

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    topic = Topic()
    monkeypatch.setattr(learning_requests, "ensure_topic", lambda *_: None)
    monkeypatch.setattr(learning_requests, "TopicReader", topic.open)
    return topic


def newest(topic: Topic, *records: Record) -> int:
    topic.records = list(records)
    with LearningRequests({}, wall_clock=lambda: NOW_MS / 1000) as requests:
        return requests.newest_ms(0.0)


@pytest.mark.parametrize(
    ("from_ms", "until_ms", "holds"),
    [
        (NOW_MS - HOUR_MS, NOW_MS, False),
        (NOW_MS - HOUR_MS, NOW_MS + 1, True),
        (NOW_MS, NOW_MS + HOUR_MS, True),
        (NOW_MS + 1, NOW_MS + HOUR_MS, False),
    ],
)
def test_a_request_holds_until_its_end_and_not_from_the_future(
    topic: Topic, from_ms: int, until_ms: int, *, holds: bool
) -> None:
    assert newest(topic, request("s", from_ms, until_ms)) == (from_ms if holds else 0)


def test_of_several_streams_the_last_that_began_to_learn_counts(topic: Topic) -> None:
    requests = (request(stream, NOW_MS - ago_ms) for stream, ago_ms in (("a", 9000), ("b", 5000), ("c", 7000)))
    assert newest(topic, *requests) == NOW_MS - 5000


@pytest.mark.parametrize("value", [None, b"", b"{", b"{}"])
def test_an_invalid_request_changes_nothing(topic: Topic, value: bytes | None) -> None:
    assert newest(topic, request("a", NOW_MS - 9000), Record(b"a", value), Record(b"b", value)) == NOW_MS - 9000


@pytest.mark.parametrize("from_ms", [NOW_MS - 5000, NOW_MS - 5001, NOW_MS + 300, NOW_MS + HOUR_MS, 2**62])
def test_however_many_requests_are_forged_that_of_a_stream_is_heard(topic: Topic, from_ms: int) -> None:
    clock = [NOW_MS / 1000]
    with LearningRequests({}, wall_clock=lambda: clock[0]) as requests:
        topic.records = [request(f"forged-{number}", from_ms, 2**63 - 1) for number in range(3000)]
        requests.newest_ms(0.0)
        clock[0] += 1.0
        topic.records = [request("ours", NOW_MS + 900)]
        requests.newest_ms(0.0)
        clock[0] += 0.1
        assert requests.newest_ms(0.0) >= NOW_MS + 900


def test_of_many_requests_at_once_the_last_that_began_counts(topic: Topic) -> None:
    forged = (request(f"forged-{number}", NOW_MS - 9000) for number in range(3000))
    assert newest(topic, *forged, request("ours", NOW_MS - 1000)) == NOW_MS - 1000


def test_of_requests_ahead_the_nearest_thousand_are_kept(topic: Topic) -> None:
    clock = [NOW_MS / 1000]
    with LearningRequests({}, wall_clock=lambda: clock[0]) as requests:
        forged = [request(f"forged-{number}", NOW_MS + 1000 * number, 2**63 - 1) for number in range(3001, 1, -1)]
        topic.records = [*forged, request("ours", NOW_MS + 900)]
        heard = [requests.newest_ms(0.0)]
        for later_s in (1, HOUR_MS / 1000):
            clock[0] = NOW_MS / 1000 + later_s
            heard.append(requests.newest_ms(0.0))
    assert heard == [0, NOW_MS + 1000, NOW_MS + 1_000_000]


def test_a_request_that_is_over_ends_no_other_that_began_before(topic: Topic) -> None:
    clock = [NOW_MS / 1000]
    with LearningRequests({}, wall_clock=lambda: clock[0]) as requests:
        topic.records = [request("long", NOW_MS - 9000), request("short", NOW_MS - 5000, NOW_MS + 10_000)]
        assert requests.newest_ms(0.0) == NOW_MS - 5000
        clock[0] += 60
        # What was asked for the second is an answer to the first as well.
        assert requests.newest_ms(0.0) == NOW_MS - 5000
        clock[0] = (NOW_MS - 9000 + HOUR_MS) / 1000
        assert requests.newest_ms(0.0) == 0


def test_a_request_from_a_clock_ahead_waits_for_its_second_and_hides_no_other(topic: Topic) -> None:
    topic.records = [request("ours", NOW_MS - 9000), request("ahead", NOW_MS + 300)]
    clock = iter([NOW_MS / 1000 + later_s for later_s in (0.0, 0.0, 0.0, 0.9, 1.0)])

    with LearningRequests({}, wall_clock=lambda: next(clock)) as requests:
        newest = [requests.newest_ms(0.0) for _ in range(3)]

    # Streams count whole seconds, rounded up here: an answer dated earlier would not do.
    assert newest == [NOW_MS - 9000, NOW_MS - 9000, NOW_MS + 1000]


def test_a_topic_that_can_t_be_read_is_closed_and_opened_again_in_a_minute(topic: Topic) -> None:
    said = list[str]()
    with LearningRequests({}, said.append, lambda: NOW_MS / 1000) as requests:
        topic.records = [request("a", NOW_MS - 9000)]
        assert requests.newest_ms(0.0) == NOW_MS - 9000
        topic.error = "no READ"
        # What was read before still holds.
        assert [requests.newest_ms(now_s) for now_s in (1.0, 59.0, 60.0, 61.0, 119.0)] == [NOW_MS - 9000] * 5
        assert (topic.opened, topic.closed) == (2, 2)

        topic.error = ""
        topic.records = [request("a", NOW_MS - 5000)]
        assert requests.newest_ms(120.0) == NOW_MS - 5000
    assert len(said) == 1
    assert topic.closed == 3

"""Asks the brokers which producer ids existed before a watch began, or before a stream lost its ids.

An id that no broker held at that time is new. Until the answer is complete, the tap marks all events in the first
window of a watch as `learning`.
"""

import threading
import time
import zlib
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from broker.errors import BrokerError
from broker.kafka.producers import ProducersAdmin, held_ids
from broker.tap.broker_watch import BrokerWatch
from broker.tap.known_ids import KnownIdAnswers, KnownIds, Watched
from broker.tap.once import Once
from broker.tap.position_file import write_atomically

_RETRY_S = 30.0
_REQUESTED_EVERY_S = 60.0
_MAX_REQUESTED = 3
"""Maximum number of stored answers to requests of streams. An answer with ten million ids takes 80 MB."""
_END_S = 5.0

AskBrokers = Callable[[Mapping[str, Watched], threading.Event], KnownIds]
"""A function that asks all brokers. If the event is set, the function ends early, and its answer is ignored."""


class _StoppedError(Exception):
    """Cancels a pending question when the tap stops."""


def ask_brokers(settings: Mapping[str, object]) -> AskBrokers:
    """Return a function that asks all brokers for the producer ids that they hold."""

    def ask(watched: Mapping[str, Watched], stop: threading.Event) -> KnownIds:
        def wait(seconds: float) -> None:
            if stop.wait(seconds):
                raise _StoppedError

        with ProducersAdmin(settings) as admin:
            return KnownIds.of(watched, held_ids(admin, wait))

    return ask


class Asking:
    """A thread that asks the brokers for the ids that they hold, one request at a time.

    `file` keeps the answers for the tap's next start.
    """

    def __init__(
        self,
        ask: AskBrokers,
        learn_ms: int,
        file: Path | None = None,
        warn: Callable[[str], None] = lambda _: None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._ask, self._learn_ms, self._file, self._warn_once = ask, learn_ms, file, Once(warn)
        self._wall_clock = wall_clock
        # Answers by name of the watch. The first answer stays, because a later answer also contains ids that were
        # charged or refused in between.
        self._known: dict[str, KnownIds] = {}
        # Newest first.
        self._requested: tuple[KnownIds, ...] = ()
        self._request_at = 0.0
        self._is_requested = False
        self._answer: KnownIds | str | None = None
        self._thread: threading.Thread | None = None
        self._retry_at = 0.0

    def load(self) -> None:
        """Load the saved answers."""
        if self._file is not None:
            self._known, self._requested = load_answers(self._file)

    def step(
        self, brokers: Mapping[str, BrokerWatch], now_s: float, stop: threading.Event, requested_ms: int = 0
    ) -> None:
        """Pass answers to watches. If a watch is new, or a stream began to learn at `requested_ms`, ask the brokers."""
        self._forget(brokers, requested_ms)
        if self._thread is not None and not self._thread.is_alive():
            self._thread.join()
            self._thread = None
            self._take(brokers, now_s)
        for stream, each in brokers.items():
            each.answers = KnownIdAnswers(stream, self._known.get(stream), self._requested)
        if self._thread is None and now_s >= self._retry_at:
            answered_ms = self._requested[0].requested_ms if self._requested else 0
            self._is_requested = requested_ms > answered_ms and now_s >= self._request_at
            learning = {stream for stream, each in brokers.items() if each.learning.lasts(self._learn_ms)}
            if self._is_requested or learning - self._known.keys():
                self._start(brokers, requested_ms, stop)

    def _forget(self, brokers: Mapping[str, BrokerWatch], requested_ms: int) -> None:
        for stream, each in brokers.items():
            if stream in self._known and not self._covers(self._known[stream], stream, each):
                # The watch restarted or no longer learns. Free the answer: ten million ids take 80 MB.
                del self._known[stream]
        if not requested_ms:
            self._requested = ()
        dated = {id(each): each.before(requested_ms) for each in (*self._requested, *self._known.values())}
        self._requested = tuple(dated[id(each)] for each in self._requested)
        self._known = {stream: dated[id(each)] for stream, each in self._known.items()}

    def _start(self, brokers: Mapping[str, BrokerWatch], requested_ms: int, stop: threading.Event) -> None:
        now_ms = round(self._wall_clock() * 1000)
        watched = {
            stream: Watched(each.learning.since_ms, min(max(each.learning.newest_ms, requested_ms), now_ms))
            for stream, each in brokers.items()
        }
        self._thread = threading.Thread(target=self._run, args=(watched, requested_ms, stop), daemon=True)
        self._thread.start()

    def _covers(self, known: KnownIds, stream: str, broker: BrokerWatch) -> bool:
        watched, watch = known.watched.get(stream), broker.learning
        return watch.lasts(self._learn_ms) and watched is not None and watched.since_ms == watch.since_ms

    def close(self) -> None:
        """Wait for the thread, which ends when the tap stops."""
        if self._thread is not None:
            self._thread.join(_END_S)

    def _run(self, watched: Mapping[str, Watched], requested_ms: int, stop: threading.Event) -> None:
        self._answer = "it failed"
        try:
            answer = self._ask(watched, stop)
            self._answer = KnownIds(answer.watched, answer.ids, round(self._wall_clock() * 1000), requested_ms)
        except _StoppedError:
            self._answer = None
        except BrokerError as error:
            self._answer = str(error)

    def _take(self, brokers: Mapping[str, BrokerWatch], now_s: float) -> None:
        answer, self._answer = self._answer, None
        if isinstance(answer, KnownIds):
            found = {stream: answer for stream, each in brokers.items() if self._covers(answer, stream, each)}
            self._known = found | self._known
            if self._is_requested:
                self._requested = (answer, *self._requested)[:_MAX_REQUESTED]
                self._request_at = now_s + _REQUESTED_EVERY_S
            ids = "producer id" if len(answer) == 1 else "producer ids"
            text = f"{len(answer):,} {ids} existed before; from now on all others count as new"
            if self._is_requested:
                text = f"a stream learns again; {text}"
            if self._file is not None:
                save_answers(self._file, self._known, self._requested)
        elif answer is not None:
            self._retry_at = now_s + _RETRY_S
            text = (
                f"can't ask for older producer ids ({answer}): nothing is charged for {self._learn_ms / 1000:g} s, "
                f"or until an answer; asking again in {_RETRY_S:g} s"
            )
        else:
            return
        self._warn_once(text)


class _Kept(msgspec.Struct, array_like=True):
    """A saved answer for the watches `streams`, without its ids, which follow the file's first line."""

    streams: list[str]
    watched: dict[str, Watched]
    answered_at_ms: int
    count: int
    crc32: int
    requested: bool = False
    requested_ms: int = 0


def save_answers(file: Path, answers: Mapping[str, KnownIds], requested: Sequence[KnownIds] = ()) -> None:
    """Save the answers atomically. After a failure, the tap asks again at its next start."""
    distinct = list({id(each): each for each in (*requested, *answers.values())}.values())
    head = [
        _Kept(
            [stream for stream, answer in answers.items() if answer is each],
            each.watched,
            each.answered_at_ms,
            len(each),
            zlib.crc32(each.ids),
            any(each is other for other in requested),
            each.requested_ms,
        )
        for each in distinct
    ]
    with suppress(OSError):
        write_atomically(file, [msgspec.json.encode(head) + b"\n", *(each.ids for each in distinct)])


def load_answers(file: Path) -> tuple[dict[str, KnownIds], tuple[KnownIds, ...]]:
    """Load the answers; none if the file is missing or damaged, because wrong ids would charge old producers."""
    found: dict[str, KnownIds] = {}
    requested: list[KnownIds] = []
    try:
        with file.open("rb") as content:
            for kept in msgspec.json.decode(content.readline(), type=list[_Kept]):
                ids = array("q")
                ids.frombytes(content.read(kept.count * ids.itemsize))
                if len(ids) != kept.count or zlib.crc32(ids) != kept.crc32:
                    return {}, ()
                answer = KnownIds(kept.watched, ids, kept.answered_at_ms, kept.requested_ms)
                found |= dict.fromkeys(kept.streams, answer)
                if kept.requested:
                    requested.append(answer)
    except (OSError, ValueError):
        return {}, ()
    return found, tuple(requested)

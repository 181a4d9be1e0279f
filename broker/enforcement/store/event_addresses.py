"""Finds which principals used an address in the last hour, from the topic `produce-events`."""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping

from confluent_kafka import Message

from broker.closing import Closing
from broker.errors import BrokerError
from broker.kafka.tail import BAD_VALUE_ERRORS, TopicReader
from wire.event_record import find_addresses
from wire.topics import ENFORCER_TOPIC, PRODUCE_EVENTS

WINDOW_S = 3_600
_MAX_PAIRS = 200_000
_CHECK_S = 60.0
_POLL_S = 0.5
_RETRY_S = 5.0


class AddressBook:
    """The principals of each address, and the times of their last events. The size is bounded."""

    def __init__(self) -> None:
        self._seen_s: dict[str, dict[str, float]] = {}
        self._pairs = 0
        self._unknown_s = float("-inf")
        self._full_s = float("-inf")

    def learn(self, principal: str, addresses: Iterable[str | None], at_s: float) -> None:
        """Record that a principal produced from these addresses. None is an unknown address."""
        for address in addresses:
            if address is None:
                self._unknown_s = max(self._unknown_s, at_s)
            elif principal in self._seen_s.get(address, ()) or self._pairs < _MAX_PAIRS:
                users = self._seen_s.setdefault(address, {})
                self._pairs += principal not in users
                users[principal] = max(users.get(principal, at_s), at_s)
            else:
                self._full_s = max(self._full_s, at_s)

    def forget(self, before_s: float) -> None:
        """Forget pairs of address and principal that were last seen before `before_s`."""
        kept = {
            address: {principal: at_s for principal, at_s in users.items() if at_s >= before_s}
            for address, users in self._seen_s.items()
        }
        self._seen_s = {address: users for address, users in kept.items() if users}
        self._pairs = sum(len(users) for users in self._seen_s.values())

    def unavailable_reason(self, since_s: float) -> str:
        """Return why the book may lack principals after `since_s`, or an empty text."""
        if self._unknown_s >= since_s:
            return "some events of the last hour have no address, so the plugin did not write them"
        if self._full_s >= since_s:
            return f"more than {_MAX_PAIRS} pairs of address and principal were in use"
        return ""

    def principals(self, address: str, since_s: float) -> Collection[str]:
        """Return the principals that used an address after `since_s`."""
        return {principal for principal, at_s in self._seen_s.get(address, {}).items() if at_s >= since_s}


class EventAddresses(Closing):
    """A thread that follows the events of the last hour. The first call of `unavailable_reason` starts the thread."""

    def __init__(self, settings: Mapping[str, str], clock_s: Callable[[], float]) -> None:
        self._settings, self._clock_s = dict(settings), clock_s
        self._book, self._lock = AddressBook(), threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._reason = "the events of the last hour are still being read"

    def unavailable_reason(self) -> str:
        """See `AddressUse.unavailable_reason`."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._follow, name="addresses", daemon=True)
            self._thread.start()
        with self._lock:
            return self._reason or self._book.unavailable_reason(self._clock_s() - WINDOW_S)

    def principals(self, address: str) -> Collection[str]:
        """See `AddressUse.principals`."""
        with self._lock:
            return self._book.principals(address, self._clock_s() - WINDOW_S)

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _follow(self) -> None:
        while not self._stop.is_set():
            try:
                self._read()
            except BrokerError as error:
                with self._lock:
                    self._reason = f"the events can't be read ({error})"
                self._stop.wait(_RETRY_S)

    def _read(self) -> None:
        start_ms = round(1000 * (self._clock_s() - WINDOW_S))
        with TopicReader(self._settings, PRODUCE_EVENTS, group=ENFORCER_TOPIC, start=start_ms) as topic:
            for message in topic.read_to_end():
                self._learn([message])
                if self._stop.is_set():
                    return
            with self._lock:
                self._reason = ""
            next_s = self._clock_s() + _CHECK_S
            while not self._stop.is_set():
                self._learn(topic.poll(_POLL_S))
                if self._clock_s() >= next_s:
                    next_s = self._clock_s() + _CHECK_S
                    with self._lock:
                        self._book.forget(self._clock_s() - WINDOW_S)

    def _learn(self, messages: Iterable[Message]) -> None:
        for message in messages:
            try:
                principal, addresses = find_addresses(message.value() or b"")
            except BAD_VALUE_ERRORS:
                continue
            with self._lock:
                self._book.learn(principal, addresses, message.timestamp()[1] / 1000)

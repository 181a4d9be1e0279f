"""Gathers a round's events per principal, to send them as few records."""

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter

from wire.event_record import EventRecord, pack_events
from wire.records import ProduceEvent


class GatheredEvents:
    """Events of a round. Not thread-safe."""

    def __init__(self) -> None:
        self._by_principal: dict[str, list[ProduceEvent]] = {}

    def add(self, event: ProduceEvent) -> None:
        """Add an event."""
        self._by_principal.setdefault(event.principal, []).append(event)

    def take(self) -> Iterator[ProduceEvent | EventRecord]:
        """Yield the records of all events, of each principal in the order they came, and forget them."""
        gathered, self._by_principal = self._by_principal, {}
        for events in gathered.values():
            # A record is of one broker.
            for _, of_broker in groupby(events, attrgetter("broker_id")):
                yield from pack_events(of_broker)

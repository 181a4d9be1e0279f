"""Reads the owners of a census's producer ids from the taps' topics."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from broker.errors import TopicMissingError
from broker.kafka.tail import TopicReader, decode_values
from lifecycle.occupancy import NOT_KNOWN_MS, Int64s
from wire.event_record import events_of
from wire.records import ProduceEvent, ProducerInit
from wire.topics import PRODUCE_EVENTS, PRODUCER_INITS

TAIL_MS = 120_000
"""The part of `produce-events` to read: taps write each active producer id once per tick, 10 s by default."""

_decode_init = msgspec.json.Decoder(ProducerInit).decode


@dataclass(frozen=True)
class FoundOwners:
    """What the taps' topics tell of producer ids.

    Attributes:
        bound: Principal and hand-out time (ms since the epoch) by producer id.
        known_since_ms: When the oldest known id was handed out, held or not; `NOT_KNOWN_MS` if none is known.
    """

    bound: Mapping[int, tuple[str, int]]
    known_since_ms: int = NOT_KNOWN_MS


def read_owners(config: Mapping[str, str], producer_ids: Int64s, now_ms: int) -> FoundOwners:
    """Return the owners of producer ids, if taps wrote them.

    The principal that got an id last owns it, unless another principal appended with it within `TAIL_MS`.
    """
    wanted = set(np.unique(producer_ids).tolist())
    asked, appended, first_ms = _Newest(), _Newest(), dict[int, int]()
    known_since_ms = NOT_KNOWN_MS
    for init in _inits(config):
        producer_id, at_ms = init.result_producer_id, init.timestamp_ms
        if known_since_ms == NOT_KNOWN_MS or at_ms < known_since_ms:
            known_since_ms = at_ms
        if producer_id in wanted:
            asked.see(producer_id, init.principal, at_ms)
            # A new epoch is not a new hand-out.
            first_ms[producer_id] = min(at_ms, first_ms.get(producer_id, at_ms))
    for event in _newest_events(config, now_ms):
        if event.producer_id in wanted:
            appended.see(event.producer_id, event.principal, event.timestamp_ms)
    owners = asked.principals | appended.principals
    bound = {each: (principal, first_ms.get(each, NOT_KNOWN_MS)) for each, principal in owners.items()}
    return FoundOwners(bound, known_since_ms)


class _Newest:
    """The principal of the newest record of each producer id."""

    def __init__(self) -> None:
        self.principals: dict[int, str] = {}
        self._at_ms: dict[int, int] = {}

    def see(self, producer_id: int, principal: str, at_ms: int) -> None:
        if at_ms >= self._at_ms.get(producer_id, at_ms):
            self.principals[producer_id], self._at_ms[producer_id] = principal, at_ms


def _inits(config: Mapping[str, str]) -> Iterator[ProducerInit]:
    try:
        with TopicReader(config, PRODUCER_INITS) as topic:
            yield from decode_values(topic.read_to_end(), _decode_init)
    except TopicMissingError:
        # Owners then come from the events alone.
        return


def _newest_events(config: Mapping[str, str], now_ms: int) -> Iterator[ProduceEvent]:
    with TopicReader(config, PRODUCE_EVENTS, start=now_ms - TAIL_MS) as topic:
        for events in decode_values(topic.read_to_end(), events_of):
            yield from events

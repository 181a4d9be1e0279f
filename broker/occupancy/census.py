"""Takes a census of producer ids and their owners."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
import numpy as np

from broker.errors import BrokerUnreachableError, TopicMissingError
from broker.kafka.client import with_retries
from broker.kafka.config import KafkaConfig
from broker.kafka.producers import ProducersAdmin
from broker.kafka.tail import TopicReader, decode_values
from broker.occupancy.sweep import (
    BrokerExpiration,
    Sweep,
    Unanswered,
    expiration,
    placements,
    sweep,
)
from lifecycle.occupancy import BYTES_PER_ENTRY, NOT_KNOWN_MS, Census, Int64s, owners_of
from wire.event_record import events_of
from wire.records import ProduceEvent, ProducerInit
from wire.topics import PRODUCE_EVENTS, PRODUCER_INITS

_NOT_ALIVE = "the cluster does not count it among its living brokers"
TAIL_MS = 120_000
"""How far back to read `produce-events`. Taps write each active producer id once per tick, 10 s by default."""

_decode_init = msgspec.json.Decoder(ProducerInit).decode


@dataclass(frozen=True)
class TakenCensus:
    """A census. `is_tapped` tells whether taps write events.

    `down` has the brokers that should hold replicas but did not answer, with reasons.
    """

    census: Census
    expirations: tuple[BrokerExpiration, ...]
    unanswered: tuple[Unanswered, ...]
    requests: int
    is_tapped: bool
    down: Mapping[int, str] = field(default_factory=dict)

    @property
    def brokers(self) -> list[int]:
        """Ids of the brokers that were up."""
        return [each.broker_id for each in self.expirations]

    @property
    def missing(self) -> Mapping[int, int]:
        """Number of replicas without an answer, by broker."""
        return Counter(each.broker_id for each in self.unanswered)


@dataclass(frozen=True)
class FoundOwners:
    """Owners of producer ids, from the taps' topics.

    Attributes:
        bound: Principal and hand-out time (ms since the epoch) by producer id.
        known_since_ms: When the oldest known id was handed out, or `NOT_KNOWN_MS`.
    """

    bound: Mapping[int, tuple[str, int]]
    known_since_ms: int = NOT_KNOWN_MS


def take_census(
    kafka: KafkaConfig,
    now_ms: int,
    requests_per_second: float,
    report: Callable[[float, float], None] = lambda _done, _total: None,
    bytes_per_entry: int = BYTES_PER_ENTRY,
) -> TakenCensus:
    """Take a census of all brokers."""
    with ProducersAdmin(kafka.kafka_python()) as admin:
        partitions = placements(admin)
        expirations, silent = _settings(admin)
        brokers = [each.broker_id for each in expirations]
        swept = sweep(admin, partitions, brokers, requests_per_second=requests_per_second, progress=report)
    found = _owners(kafka, swept, now_ms)
    owners = owners_of(swept.replicas, found.bound, found.known_since_ms) if found else owners_of(swept.replicas, {})
    census = Census(
        now_ms,
        tuple(swept.replicas),
        tuple(partitions),
        owners,
        {each.broker_id: each.producer_id_ms for each in expirations},
        {each.broker_id: each.check_interval_ms for each in expirations},
        bytes_per_entry,
    )
    holders = {broker_id for each in partitions for broker_id in each.replicas}
    down = {each: silent.get(each, _NOT_ALIVE) for each in sorted(holders.difference(brokers))}
    return TakenCensus(census, tuple(expirations), tuple(swept.unanswered), swept.requests, found is not None, down)


def _settings(admin: ProducersAdmin) -> tuple[list[BrokerExpiration], dict[int, str]]:
    answered, silent = [], {}
    for broker_id in with_retries(admin.brokers):
        try:
            answered.append(expiration(admin, broker_id))
        except BrokerUnreachableError as error:
            # The broker has just died, and the others have not noticed yet.
            silent[broker_id] = str(error)
    return answered, silent


def _owners(kafka: KafkaConfig, swept: Sweep, now_ms: int) -> FoundOwners | None:
    if not swept.replicas:
        return FoundOwners({})
    found = np.concatenate([replica.producer_ids for replica in swept.replicas])
    try:
        return read_owners(kafka.client(), found, now_ms)
    except TopicMissingError:
        return None


def read_owners(config: Mapping[str, str], producer_ids: Int64s, now_ms: int) -> FoundOwners:
    """Return the owners of producer ids, as far as the taps' topics name them.

    An id belongs to the last principal that used the id within `TAIL_MS`, else to the last principal that got the id.
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
            # A new epoch of an id is not a new hand-out.
            first_ms[producer_id] = min(at_ms, first_ms.get(producer_id, at_ms))
    for event in _newest_events(config, now_ms):
        if event.producer_id in wanted:
            appended.see(event.producer_id, event.principal, event.timestamp_ms)
    owners = asked.principals | appended.principals
    bound = {each: (principal, first_ms.get(each, NOT_KNOWN_MS)) for each, principal in owners.items()}
    return FoundOwners(bound, known_since_ms)


class _Newest:
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
        # Without this topic, owners come only from the events.
        return


def _newest_events(config: Mapping[str, str], now_ms: int) -> Iterator[ProduceEvent]:
    with TopicReader(config, PRODUCE_EVENTS, start=now_ms - TAIL_MS) as topic:
        for events in decode_values(topic.read_to_end(), events_of):
            yield from events

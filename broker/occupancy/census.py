"""Takes a census: a sweep over all brokers, and the owners of the producer ids."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from broker.errors import BrokerUnreachableError, TopicMissingError
from broker.kafka.client import with_retries
from broker.kafka.config import KafkaConfig
from broker.kafka.producers import ProducersAdmin
from broker.occupancy.census_owners import FoundOwners, read_owners
from broker.occupancy.sweep import (
    BrokerExpiration,
    Sweep,
    Unanswered,
    expiration,
    placements,
    sweep,
)
from lifecycle.occupancy import BYTES_PER_ENTRY, Census, owners_of

_NOT_ALIVE = "the cluster does not count it among its living brokers"


@dataclass(frozen=True)
class TakenCensus:
    """A census and its diagnostics.

    `down` has the brokers that should hold replicas and returned nothing, with the reason. `is_tapped` tells
    whether the topic `produce-events` exists.
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
        """Replicas that are missing, by broker."""
        return Counter(each.broker_id for each in self.unanswered)


def take_census(
    kafka: KafkaConfig,
    now_ms: int,
    requests_per_second: float,
    report: Callable[[float, float], None] = lambda _done, _total: None,
    bytes_per_entry: int = BYTES_PER_ENTRY,
) -> TakenCensus:
    """Ask all brokers."""
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
    """Return the settings of the brokers, and the reasons of those that do not answer."""
    answered, silent = [], {}
    for broker_id in with_retries(admin.brokers):
        try:
            answered.append(expiration(admin, broker_id))
        except BrokerUnreachableError as error:
            # It has just died, and the others have not noticed yet.
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

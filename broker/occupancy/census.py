"""Takes a census of producer ids and their owners."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from broker.errors import BrokerError, BrokerUnreachableError, ClusterRequestError, TopicMissingError
from broker.kafka.acls import Acls
from broker.kafka.client import with_retries
from broker.kafka.config import KafkaConfig
from broker.kafka.own_rights import sees_every_topic
from broker.kafka.producers import REQUESTS_PER_SECOND, ProducersAdmin
from broker.kafka.tail import TopicReader, decode_values
from broker.kafka.topics import admin_client
from broker.occupancy.acl_owners import AclOwners, OwnerReason
from broker.occupancy.sweep import (
    BrokerExpiration,
    Sweep,
    Unanswered,
    expiration,
    placements,
    sweep,
)
from lifecycle.occupancy import NOT_KNOWN_MS, Census, Int64s, owners_of
from wire.event_record import ProduceEvent, parse_events
from wire.plugin_reports import InitReport, parse_report
from wire.topics import PRODUCE_EVENTS, REPORTS

_NOT_ALIVE = "the cluster does not count it among its living brokers"
TAIL_MS = 120_000
"""How far back to read `produce-events`. Plugins write each PID in use once per repeat interval, 30 s by default."""


class OwnersFrom(str, Enum):
    """What names the owners of producer ids."""

    PLUGIN = "plugin"
    ACLS = "acls"
    NOTHING = "nothing"
    """No plugin writes events, and the brokers show no ACLs."""


@dataclass(frozen=True)
class TakenCensus:
    """A census.

    Attributes:
        owners_from: What names the owners.
        down: The brokers that should hold replicas but did not answer, with reasons.
        unowned: Number of producer ids for which ACLs name no owner, by reason.
        is_partial: Whether brokers hide topics from this user.
        transactional_ids: The transactional ids that the brokers tell this user, by producer id; only asked for if a
            transaction is open.
    """

    census: Census
    expirations: tuple[BrokerExpiration, ...]
    unanswered: tuple[Unanswered, ...]
    requests: int
    owners_from: OwnersFrom
    down: Mapping[int, str] = field(default_factory=dict)
    unowned: Mapping[OwnerReason, int] = field(default_factory=dict)
    is_partial: bool = False
    transactional_ids: Mapping[int, str] = field(default_factory=dict)

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
    """Owners of producer ids.

    Attributes:
        bound: Principal and hand-out time (ms since the epoch) by producer id.
        known_since_ms: When the oldest known id was handed out, or `NOT_KNOWN_MS`.
    """

    bound: Mapping[int, tuple[str, int]]
    known_since_ms: int = NOT_KNOWN_MS
    source: OwnersFrom = OwnersFrom.PLUGIN
    unowned: Mapping[OwnerReason, int] = field(default_factory=dict)


def take_census(
    kafka: KafkaConfig,
    now_ms: int,
    requests_per_second: float = REQUESTS_PER_SECOND,
    report: Callable[[float, float], None] = lambda _done, _total: None,
) -> TakenCensus:
    """Take a census of all brokers."""
    with ProducersAdmin(kafka) as admin:
        partitions = placements(admin)
        expirations, silent = _settings(admin)
        brokers = [each.broker_id for each in expirations]
        swept = sweep(admin, partitions, brokers, requests_per_second=requests_per_second, progress=report)
        found = _owners(kafka, admin, swept, now_ms)
        named = _transactional_ids(admin, swept)
    owners = owners_of(swept.replicas, found.bound, found.known_since_ms)
    census = Census(
        now_ms,
        tuple(swept.replicas),
        tuple(partitions),
        owners,
        {each.broker_id: each.producer_id_ms for each in expirations},
        {each.broker_id: each.check_interval_ms for each in expirations},
    )
    holders = {broker_id for each in partitions for broker_id in each.replicas}
    down = {each: silent.get(each, _NOT_ALIVE) for each in sorted(holders.difference(brokers))}
    return TakenCensus(
        *(census, tuple(expirations), tuple(swept.unanswered), swept.requests, found.source, down, found.unowned),
        is_partial=not sees_every_topic(kafka.client()),
        transactional_ids=named,
    )


def _transactional_ids(admin: ProducersAdmin, swept: Sweep) -> dict[int, str]:
    if not any(replica.in_transaction.any() for replica in swept.replicas):
        return {}
    try:
        return admin.transactional_ids()
    except BrokerError:
        # This user may not ask, or a coordinator is down.
        return {}


def _settings(admin: ProducersAdmin) -> tuple[list[BrokerExpiration], dict[int, str]]:
    answered, silent = [], {}
    for broker_id in with_retries(admin.brokers):
        try:
            answered.append(expiration(admin, broker_id))
        except BrokerUnreachableError as error:
            # The broker has just died, and the others have not noticed yet.
            silent[broker_id] = str(error)
    return answered, silent


def _owners(kafka: KafkaConfig, admin: ProducersAdmin, swept: Sweep, now_ms: int) -> FoundOwners:
    if not swept.replicas:
        return FoundOwners({})
    found = np.concatenate([replica.producer_ids for replica in swept.replicas])
    try:
        return read_owners(kafka.client(), found, now_ms)
    except TopicMissingError:
        return _owners_by_acls(admin, swept)


def _owners_by_acls(admin: ProducersAdmin, swept: Sweep) -> FoundOwners:
    acls = Acls(admin)
    try:
        owners = AclOwners(acls.for_writers(), allows_without_acl=acls.allows_without_acl() is not False)
    except ClusterRequestError:
        return FoundOwners({}, source=OwnersFrom.NOTHING)
    topics: dict[int, set[str]] = defaultdict(set)
    for replica in swept.replicas:
        for producer_id in replica.producer_ids.tolist():
            topics[producer_id].add(replica.topic)
    names = admin.transactional_ids()
    bound: dict[int, tuple[str, int]] = {}
    unowned: Counter[OwnerReason] = Counter()
    for producer_id, written in topics.items():
        owner = owners.owner(frozenset(written), names.get(producer_id))
        if owner.principal is not None:
            bound[producer_id] = owner.principal, NOT_KNOWN_MS
        elif owner.reason is not None:
            unowned[owner.reason] += 1
    return FoundOwners(bound, source=OwnersFrom.ACLS, unowned=unowned)


def read_owners(config: Mapping[str, str], producer_ids: Int64s, now_ms: int) -> FoundOwners:
    """Return the owners of producer ids, as far as the plugins' topics name them.

    An id belongs to the last principal that used the id within `TAIL_MS`, else to the last principal that got the id.
    """
    wanted = set(np.unique(producer_ids).tolist())
    asked, appended = dict[int, tuple[int, str]](), dict[int, tuple[int, str]]()
    first_ms: dict[int, int] = {}
    known_since_ms = NOT_KNOWN_MS
    for init in _inits(config):
        producer_id, at_ms = init.result_producer_id, init.timestamp_ms
        if known_since_ms == NOT_KNOWN_MS or at_ms < known_since_ms:
            known_since_ms = at_ms
        if producer_id in wanted:
            _keep_newest(asked, producer_id, at_ms, init.principal)
            # A new epoch of an id is not a new hand-out.
            first_ms[producer_id] = min(at_ms, first_ms.get(producer_id, at_ms))
    for event in _newest_events(config, now_ms):
        if event.producer_id in wanted:
            _keep_newest(appended, event.producer_id, event.timestamp_ms, event.principal)
    owners = asked | appended
    bound = {each: (principal, first_ms.get(each, NOT_KNOWN_MS)) for each, (_, principal) in owners.items()}
    return FoundOwners(bound, known_since_ms)


def _keep_newest(newest: dict[int, tuple[int, str]], producer_id: int, at_ms: int, principal: str) -> None:
    if producer_id not in newest or at_ms >= newest[producer_id][0]:
        newest[producer_id] = at_ms, principal


def _inits(config: Mapping[str, str]) -> Iterator[InitReport]:
    try:
        with TopicReader(config, REPORTS) as topic:
            cluster_id = admin_client(config).metadata().cluster_id
            for message in topic.read_to_end():
                report = parse_report(message.value())
                if isinstance(report, InitReport) and report.cluster_id == cluster_id:
                    yield report
    except TopicMissingError:
        # Without this topic, owners come only from the events.
        return


def _newest_events(config: Mapping[str, str], now_ms: int) -> Iterator[ProduceEvent]:
    with TopicReader(config, PRODUCE_EVENTS, start=now_ms - TAIL_MS) as topic:
        for events in decode_values(topic.read_to_end(), parse_events):
            yield from events

"""Census of the producer state that brokers hold in memory (KIP-854).

An entry is one producer id on one replica of a partition. Followers hold entries, too. The broker metric
`ProducerIdCount` counts entries.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

BYTES_PER_ENTRY = 306
"""Heap of an entry with one batch on Kafka 4.3 (`docs/kip-854.md`). An entry with five batches takes 446."""
CHECK_INTERVAL_MS = 600_000
"""Default interval of a broker's expiration checks."""
NOT_KNOWN_MS = -1
MAX_IDLE_HOURS = 168
"""Upper bound of idle times. Clients may stamp batches with any time."""
_HOUR_MS = 3_600_000


@dataclass(frozen=True)
class ReplicaProducers:
    """The entries of one replica of a partition, as columns of the same length.

    Attributes:
        is_leader: Whether the replica's broker leads the partition.
        last_timestamps_ms: Time of each producer's last batch, as the client stamped it.
        in_transaction: Whether each producer has an open transaction, during which it does not expire.
    """

    broker_id: int
    topic: str
    partition: int
    is_leader: bool
    producer_ids: Int64s
    last_timestamps_ms: Int64s
    in_transaction: Bools

    def __len__(self) -> int:
        return len(self.producer_ids)


@dataclass(frozen=True)
class CensusOwners:
    """Owners of producer ids, as columns sorted by producer id.

    Attributes:
        codes: Index of each id's owner in `principals`.
        handed_out_ms: When each id was handed out; `NOT_KNOWN_MS` if unknown.
        known_since_ms: When the oldest known id of the cluster was handed out; `NOT_KNOWN_MS` if unknown.
    """

    producer_ids: Int64s
    codes: Int32s
    handed_out_ms: Int64s
    principals: tuple[str, ...]
    known_since_ms: int = NOT_KNOWN_MS

    def rows(self, producer_ids: Int64s) -> npt.NDArray[np.intp]:
        """Return the row of each producer id."""
        return np.searchsorted(self.producer_ids, producer_ids)


@dataclass(frozen=True)
class Placement:
    """Replicas of a partition, as broker ids. `replicas` begins with the preferred leader."""

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: frozenset[int]


@dataclass(frozen=True)
class Census:
    """Producer state of all brokers.

    Attributes:
        replicas: Entries of all partitions on all brokers that answered.
        expirations_ms: `producer.id.expiration.ms` of each broker.
        checks_ms: Interval of each broker's expiration checks. A missing broker has the default.
    """

    taken_at_ms: int
    replicas: tuple[ReplicaProducers, ...]
    placements: tuple[Placement, ...]
    owners: CensusOwners
    expirations_ms: Mapping[int, int]
    checks_ms: Mapping[int, int] = field(default_factory=dict)
    bytes_per_entry: int = BYTES_PER_ENTRY

    def bytes_of(self, entries: float) -> int:
        """Estimate the heap of entries in bytes."""
        return round(entries * self.bytes_per_entry)

    def check_interval_ms(self, broker_id: int) -> int:
        """Return the interval of a broker's expiration checks."""
        return self.checks_ms.get(broker_id, CHECK_INTERVAL_MS)

    def of_broker(self, broker_id: int) -> Sequence[ReplicaProducers]:
        """Return the replicas of one broker."""
        return self._by_broker.get(broker_id, ())

    def held(self, broker_id: int) -> int:
        """Return a broker's number of entries (`ProducerIdCount`)."""
        return sum(map(len, self.of_broker(broker_id)))

    def entries(self, broker_id: int, placement: Placement) -> int:
        """Return a broker's number of entries for one partition."""
        return self._entries.get((broker_id, placement.topic, placement.partition), 0)

    @cached_property
    def _by_broker(self) -> dict[int, list[ReplicaProducers]]:
        found: dict[int, list[ReplicaProducers]] = defaultdict(list)
        for replica in self.replicas:
            found[replica.broker_id].append(replica)
        return dict(found)

    @cached_property
    def _entries(self) -> dict[tuple[int, str, int], int]:
        return {(each.broker_id, each.topic, each.partition): len(each) for each in self.replicas}


@dataclass(frozen=True)
class Occupancy:
    """Entries of a principal (or `unknown`) in a topic on a broker.

    Attributes:
        led_pids: Entries of partitions that the broker leads.
        held_pids: Entries of all replicas on the broker.
        open_transactions: Held entries with an open transaction.
        idle_hours: Held entries by whole hours since their last batch, without zeros at the end. The element
            `MAX_IDLE_HOURS` also counts longer times.
    """

    broker_id: int
    topic: str
    principal: str
    led_pids: int
    held_pids: int
    open_transactions: int
    idle_hours: tuple[int, ...]


def count_occupancy(census: Census) -> list[Occupancy]:
    """Count entries by broker, topic and principal, largest count first."""
    groups: dict[tuple[int, str], list[ReplicaProducers]] = defaultdict(list)
    for replica in census.replicas:
        groups[replica.broker_id, replica.topic].append(replica)
    found = [row for replicas in groups.values() for row in _count_topic(census, replicas)]
    return sorted(found, key=lambda row: (-row.held_pids, row.broker_id, row.topic, row.principal))


def _count_topic(census: Census, replicas: Sequence[ReplicaProducers]) -> Iterator[Occupancy]:
    times = np.concatenate([replica.last_timestamps_ms for replica in replicas])
    opened = np.concatenate([replica.in_transaction for replica in replicas])
    led = np.concatenate([np.full(len(replica), replica.is_leader) for replica in replicas])
    rows = census.owners.rows(np.concatenate([replica.producer_ids for replica in replicas]))
    codes, whose = np.unique(census.owners.codes[rows], return_inverse=True)
    hours = np.clip((census.taken_at_ms - times) // _HOUR_MS, 0, MAX_IDLE_HOURS)
    size = (len(codes), MAX_IDLE_HOURS + 1)
    idle = np.bincount(whose * size[1] + hours, minlength=size[0] * size[1]).reshape(size)
    led_pids, open_pids = (np.bincount(whose[chosen], minlength=size[0]) for chosen in (led, opened))
    for number, code in enumerate(codes.tolist()):
        yield Occupancy(
            replicas[0].broker_id,
            replicas[0].topic,
            census.owners.principals[code],
            int(led_pids[number]),
            int(idle[number].sum()),
            int(open_pids[number]),
            tuple(np.trim_zeros(idle[number], "b").tolist()),
        )


@dataclass(frozen=True)
class Held:
    """Distinct producer ids and entries of a principal (or `unknown`) on all brokers."""

    principal: str
    producer_ids: int
    entries: int


def count_held(census: Census, occupancy: Iterable[Occupancy]) -> list[Held]:
    """Count producer ids and entries by principal, most entries first."""
    entries: dict[str, int] = defaultdict(int)
    for row in occupancy:
        entries[row.principal] += row.held_pids
    ids = np.bincount(census.owners.codes, minlength=len(census.owners.principals))
    found = [Held(each, int(ids[code]), entries[each]) for code, each in enumerate(census.owners.principals)]
    return sorted((each for each in found if each.entries), key=lambda each: (-each.entries, each.principal))


def owners_of(
    replicas: Iterable[ReplicaProducers], bound: Mapping[int, tuple[str, int]], known_since_ms: int = NOT_KNOWN_MS
) -> CensusOwners:
    """Join the producer ids of replicas with their owners.

    `bound` has the principal and the hand-out time of each known producer id.
    """
    columns: Sequence[Int64s] = [replica.producer_ids for replica in replicas]
    ids: Int64s = np.unique(np.concatenate(columns)) if columns else np.empty(0, np.int64)
    unknown = "unknown"
    principals = (unknown, *sorted({principal for principal, _ in bound.values()} - {unknown}))
    code_of = {principal: code for code, principal in enumerate(principals)}
    found = [bound.get(producer_id, (unknown, NOT_KNOWN_MS)) for producer_id in ids.tolist()]
    codes = np.fromiter((code_of[principal] for principal, _ in found), np.int32, len(found))
    times = np.fromiter((time_ms for _, time_ms in found), np.int64, len(found))
    return CensusOwners(ids, codes, times, principals, known_since_ms)

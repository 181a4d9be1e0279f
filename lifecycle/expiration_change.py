"""Effects of changing `producer.id.expiration.ms`: memory freed, and producers that would lose deduplication.

A broker expires a producer without an open transaction once its last batch is `producer.id.expiration.ms` old. The age
comes from the batch's timestamp, which the client may set. A leader does not deduplicate retries of an expired
producer's last batches (KIP-854). Brokers can't tell whether an idle producer is paused or gone. So producers that are
certainly alive, or that were in use for long, are counted separately.
"""

from dataclasses import dataclass

import numpy as np

from lifecycle.occupancy import NOT_KNOWN_MS, Bools, Census, ReplicaProducers

DEFAULT_DELIVERY_TIMEOUT_MS = 120_000
"""Default `delivery.timeout.ms`. A producer retries for this long, so brokers must remember the producer."""


@dataclass(frozen=True)
class Freed:
    """Entries (`lifecycle.occupancy`) that a broker would expire only with the new expiration.

    Attributes:
        freed_pids: Entries that are idle for longer than the new expiration, but not longer than the current one.
        kept_open: Entries that are idle for longer than the new expiration, but have an open transaction.
    """

    broker_id: int
    held_pids: int
    freed_pids: int
    kept_open: int


@dataclass(frozen=True)
class LostDedup:
    """Producers of a principal that would lose deduplication if they resumed.

    Attributes:
        producers: Producer ids that a leader of any partition would expire.
        alive: Those that are active on another partition or have an open transaction.
        long_lived: Others that were in use for longer than the new expiration before they paused.
    """

    principal: str
    producers: int
    alive: int
    long_lived: int

    @property
    def silent(self) -> int:
        """Producers that are neither alive nor long-lived, and may be paused or gone."""
        return self.producers - self.alive - self.long_lived


def freed_by(census: Census, expiration_ms: int) -> list[Freed]:
    """Count the entries that each broker would expire at its next check with another `producer.id.expiration.ms`."""
    found = []
    for broker_id in sorted({replica.broker_id for replica in census.replicas}):
        replicas = census.of_broker(broker_id)
        freed = sum(int(_would_go(census, each, expiration_ms).sum()) for each in replicas)
        kept = sum(int((each.in_transaction & _is_idle(census, each, expiration_ms)).sum()) for each in replicas)
        found.append(Freed(broker_id, census.held(broker_id), freed, kept))
    return found


def _would_go(census: Census, replica: ReplicaProducers, expiration_ms: int) -> Bools:
    goes_anyway = _is_idle(census, replica, census.expirations_ms[replica.broker_id])
    return ~(replica.in_transaction | goes_anyway) & _is_idle(census, replica, expiration_ms)


def _is_idle(census: Census, replica: ReplicaProducers, for_ms: int) -> Bools:
    """Return which producers have no batch, and no marker that ended a transaction, for at least this time."""
    return census.taken_at_ms - replica.last_timestamps_ms >= for_ms


def lost_dedup(census: Census, expiration_ms: int) -> list[LostDedup]:
    """Count the producers that leaders would expire, by principal, largest count first."""
    owners = census.owners
    losing, alive, lived = (np.zeros(len(owners.producer_ids), np.bool_) for _ in range(3))
    for replica in census.replicas:
        if not replica.is_leader:
            continue
        rows, times = owners.rows(replica.producer_ids), replica.last_timestamps_ms
        handed_out = owners.handed_out_ms[rows]
        losing[rows[_would_go(census, replica, expiration_ms)]] = True
        alive[rows[replica.in_transaction | ~_is_idle(census, replica, expiration_ms)]] = True
        lived[rows[(handed_out != NOT_KNOWN_MS) & (times - handed_out >= expiration_ms)]] = True
    found = [
        LostDedup(
            principal,
            int((mine := losing & (owners.codes == code)).sum()),
            int((mine & alive).sum()),
            int((mine & ~alive & lived).sum()),
        )
        for code, principal in enumerate(owners.principals)
    ]
    return sorted((each for each in found if each.producers), key=lambda each: (-each.producers, each.principal))

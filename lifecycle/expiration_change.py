"""What another `producer.id.expiration.ms` would do: memory freed, and whose producers would lose their deduplication.

A producer that its leader has forgotten may go on, but a retry of its last batches is no longer recognised (KIP-854's
warning). Whether a silent producer pauses or is gone can't be seen from outside: what is known is told apart from what
is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lifecycle.expiry import expired
from lifecycle.occupancy import NOT_KNOWN_MS, Bools, Census, ReplicaProducers


@dataclass(frozen=True)
class Freed:
    """What a broker would forget that it does not forget now.

    Attributes:
        broker_id: Of the broker.
        held_pids: Entries it holds now.
        freed_pids: Of these, those idle longer than the new expiration and shorter than its own.
        kept_open: Entries as long idle that an open transaction keeps.
    """

    broker_id: int
    held_pids: int
    freed_pids: int
    kept_open: int


@dataclass(frozen=True)
class LostDedup:
    """Whose producers would lose their deduplication if they went on after their pause.

    Attributes:
        principal: Whose they are.
        producers: Producer ids whose leader would forget them on some partition.
        alive: Of these, those that certainly live: they produce to another partition, or have a transaction open.
        long_lived: Of the rest, those that had produced for longer than the new expiration before their pause.
    """

    principal: str
    producers: int
    alive: int
    long_lived: int

    @property
    def silent(self) -> int:
        """Of those nobody outside can say whether they pause or are gone."""
        return self.producers - self.alive - self.long_lived


def freed_by(census: Census, expiration_ms: int) -> list[Freed]:
    """Count what each broker would forget, after its next check, with another `producer.id.expiration.ms`."""
    brokers = sorted({replica.broker_id for replica in census.replicas})
    return [_freed(census, broker_id, expiration_ms) for broker_id in brokers]


def _freed(census: Census, broker_id: int, expiration_ms: int) -> Freed:
    replicas = census.of_broker(broker_id)
    freed = sum(int(_would_go(census, replica, expiration_ms).sum()) for replica in replicas)
    kept = sum(
        int((replica.in_transaction & (census.taken_at_ms - replica.last_timestamps_ms >= expiration_ms)).sum())
        for replica in replicas
    )
    return Freed(broker_id, sum(map(len, replicas)), freed, kept)


def _would_go(census: Census, replica: ReplicaProducers, expiration_ms: int) -> Bools:
    times, opened, now_ms = replica.last_timestamps_ms, replica.in_transaction, census.taken_at_ms
    goes_anyway = expired(times, opened, now_ms, census.expirations_ms[replica.broker_id])
    would_go: Bools = expired(times, opened, now_ms, expiration_ms) & ~goes_anyway
    return would_go


def lost_dedup(census: Census, expiration_ms: int) -> list[LostDedup]:
    """Tell by principal whose producers the leaders would forget; the most first."""
    owners = census.owners
    losing, alive, lived = (np.zeros(len(owners.producer_ids), np.bool_) for _ in range(3))
    for replica in census.replicas:
        if not replica.is_leader:
            continue
        rows, times = owners.rows(replica.producer_ids), replica.last_timestamps_ms
        handed_out = owners.handed_out_ms[rows]
        losing[rows[_would_go(census, replica, expiration_ms)]] = True
        alive[rows[replica.in_transaction | (census.taken_at_ms - times < expiration_ms)]] = True
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

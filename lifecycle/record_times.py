"""What the times in records do to producer state.

A broker expires a producer by the time of its newest record. In topics with `message.timestamp.type=CreateTime` (the
default), the client sets this time. So a producer of old records is forgotten at each check, and comes back with its
next batch; one of future records stays until that time is over. Neither tells when the producer was in use.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lifecycle.occupancy import NOT_KNOWN_MS, Bools, Census, Int64s, ReplicaProducers

CLOCK_MS = 60_000
"""A client's clock may be wrong by this."""
HANGING_MS = 15 * 60_000
"""Brokers abort a transaction after at most `transaction.max.timeout.ms`, by default this long."""


@dataclass(frozen=True)
class RecordTimes:
    """Entries of a topic, on its leaders, with times that are not those of their use.

    Attributes:
        old_entries: Entries whose time is before the producer id's hand-out, or that should have expired.
        future_entries: Entries whose time is in the future.
        newest_ms: The greatest time, in ms since the epoch.
    """

    topic: str
    old_entries: int
    future_entries: int
    newest_ms: int


@dataclass(frozen=True)
class HangingTransaction:
    """A transaction that is open for longer than brokers allow. Its entry never expires.

    Attributes:
        since_ms: Time of its producer's newest batch, or of the id's hand-out if that is later.
        transactional_id: None if the brokers don't know it, or don't tell this user.
    """

    topic: str
    partition: int
    producer_id: int
    since_ms: int
    transactional_id: str | None = None


def odd_record_times(census: Census) -> list[RecordTimes]:
    """Return the topics whose records have times other than those of their producers' use, most entries first."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for replica in census.replicas:
        times = replica.last_timestamps_ms
        if not (replica.is_leader and len(times)):
            continue
        overdue_ms = census.expirations_ms[replica.broker_id] + 2 * census.check_interval_ms(replica.broker_id)
        is_overdue = ~replica.in_transaction & (times < census.taken_at_ms - overdue_ms)
        old = _is_before_hand_out(census, replica) | is_overdue
        future = times > census.taken_at_ms + CLOCK_MS
        count = counts[replica.topic]
        count[0], count[1] = count[0] + int(old.sum()), count[1] + int(future.sum())
        count[2] = max(count[2], int(times.max()))
    found = [RecordTimes(topic, *count) for topic, count in counts.items() if count[0] or count[1]]
    return sorted(found, key=lambda each: (-each.old_entries - each.future_entries, each.topic))


def hanging_transactions(census: Census, transactional_ids: Mapping[int, str]) -> list[HangingTransaction]:
    """Return the transactions that leaders hold open for too long, oldest first.

    `transactional_ids` has the known transactional ids by producer id.
    """
    found = []
    for replica in census.replicas:
        if not replica.is_leader:
            continue
        since = np.maximum(replica.last_timestamps_ms, _hand_outs(census, replica))
        for row in np.flatnonzero(replica.in_transaction & (since < census.taken_at_ms - HANGING_MS)).tolist():
            pid = int(replica.producer_ids[row])
            known = transactional_ids.get(pid)
            found.append(HangingTransaction(replica.topic, replica.partition, pid, int(since[row]), known))
    return sorted(found, key=lambda each: (each.since_ms, each.topic, each.partition, each.producer_id))


def _hand_outs(census: Census, replica: ReplicaProducers) -> Int64s:
    return census.owners.handed_out_ms[census.owners.rows(replica.producer_ids)]


def _is_before_hand_out(census: Census, replica: ReplicaProducers) -> Bools:
    handed_out = _hand_outs(census, replica)
    found: Bools = (handed_out != NOT_KNOWN_MS) & (replica.last_timestamps_ms < handed_out - CLOCK_MS)
    return found

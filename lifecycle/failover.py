"""Predicts how many producers each broker leads and holds after another broker fails.

Followers hold the producers of the partitions that they replicate. So the other brokers' `led_pids` grow, but their
`held_pids` grow only when partitions are reassigned.
"""

from collections.abc import Collection
from dataclasses import dataclass

from lifecycle.occupancy import Census, Placement


def next_leader(placement: Placement, alive: Collection[int]) -> int | None:
    """Return the broker that leads a partition: its leader if alive, else the first live in-sync replica.

    Examples:
        >>> orders = Placement("orders", 0, 1, (1, 3, 2), frozenset({1, 2, 3}))
        >>> next_leader(orders, {2, 3}), next_leader(orders, {1, 3}), next_leader(orders, {4})
        (3, 1, None)
    """
    if placement.leader in alive:
        return placement.leader
    return next((broker for broker in placement.replicas if broker in placement.in_sync and broker in alive), None)


@dataclass(frozen=True)
class Survivor:
    """A broker after the failure of another broker.

    Attributes:
        led_partitions: Number of partitions that the broker leads after the failure.
        led_before: Entries (`lifecycle.occupancy`) of the partitions that the broker leads before the failure.
        led_pids: Entries of the partitions that the broker leads after the failure.
        held_pids: Entries that the broker holds, before and after the failure.
    """

    dead: int
    broker_id: int
    led_partitions: int
    led_before: int
    led_pids: int
    held_pids: int


@dataclass(frozen=True)
class Failover:
    """Effects of a broker's failure.

    `leaderless` has the topic and number of each partition that has no leader after the failure.
    """

    dead: int
    survivors: tuple[Survivor, ...]
    leaderless: tuple[tuple[str, int], ...]


def failovers(census: Census) -> list[Failover]:
    """Predict the effects of each broker's failure."""
    return [failover(census, broker_id) for broker_id in _brokers(census)]


def failover(census: Census, dead: int) -> Failover:
    """Predict the effects of one broker's failure before partitions are reassigned."""
    survivors = [broker_id for broker_id in _brokers(census) if broker_id != dead]
    partitions, before, after = (dict.fromkeys(survivors, 0) for _ in range(3))
    leaderless = []
    for placement in census.placements:
        if placement.leader in before:
            before[placement.leader] += census.entries(placement.leader, placement)
        leader = next_leader(placement, survivors)
        if leader is None:
            leaderless.append((placement.topic, placement.partition))
        else:
            partitions[leader] += 1
            after[leader] += census.entries(leader, placement)
    rows = (
        Survivor(dead, broker_id, partitions[broker_id], before[broker_id], after[broker_id], census.held(broker_id))
        for broker_id in survivors
    )
    return Failover(dead, tuple(rows), tuple(leaderless))


def _brokers(census: Census) -> list[int]:
    return sorted({*census.expirations_ms, *(replica.broker_id for replica in census.replicas)})

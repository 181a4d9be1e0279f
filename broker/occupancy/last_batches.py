"""Reads when each producer id was last used: brokers remember the time of its last batch."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from broker.kafka.client import with_retries
from broker.kafka.config import KafkaConfig
from broker.kafka.producers import ProducersAdmin
from broker.occupancy.sweep import Unanswered, placements, sweep


def last_batches(
    kafka: KafkaConfig, report: Callable[[float, float], None] = lambda _done, _total: None
) -> tuple[dict[int, int], Sequence[Unanswered]]:
    """Return the time of each producer id's last batch (ms since the epoch), and partitions without an answer."""
    newest: dict[int, int] = {}
    with ProducersAdmin(kafka.kafka_python()) as admin:
        brokers = list(with_retries(admin.brokers))
        # A leader has all entries of its followers.
        led = [replace(each, replicas=(each.leader,)) for each in placements(admin) if each.leader is not None]
        swept = sweep(admin, led, brokers, progress=report)
    for replica in swept.replicas:
        for pid, last in zip(replica.producer_ids.tolist(), replica.last_timestamps_ms.tolist(), strict=True):
            newest[pid] = max(last, newest.get(pid, last))
    return newest, swept.unanswered

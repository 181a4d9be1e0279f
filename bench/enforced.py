"""Counts the PIDs that a flood gets under enforcement, in the first and in the second window.

A user asks for 738 new PIDs a second, and uses each. The quota is 100 per window. The window is 120 s and stands for an
hour: what passes before the first hold doesn't depend on its length. Kafka's DescribeProducers lists the PIDs that the
broker's metric ProducerIdCount counts.
"""

import time
from contextlib import closing
from functools import partial
from itertools import pairwise

from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartition

from bench.kit import ORDERS, Found, figure, in_background, running_broker, running_product
from bench.raw_client import flood
from broker.local.local_broker import LocalBroker

QUOTA, RATE, WINDOW_S, REPEAT_S, WARM_UP_RATE, WARM_UP_S = 100, 738, 120, 6, 4, 20


def measure(_share: float) -> Found:
    options = {"enforce": "true", "window_seconds": WINDOW_S}
    with (
        running_broker(pid_quota_window_ms=1000 * WINDOW_S, pid_quota_repeat_ms=1000 * REPEAT_S) as (broker, folder),
        running_product(broker, folder / "run", QUOTA, "1 second", **options) as child,
    ):
        with in_background(partial(flood, broker, "alice", WARM_UP_RATE, int)):
            time.sleep(WARM_UP_S)
        counts = [producer_ids(broker)]
        with in_background(partial(flood, broker, "mallory", RATE, int)):
            for _ in range(2):
                time.sleep(WINDOW_S)
                child.is_alive()
                counts.append(producer_ids(broker))
    first, second = (figure([now - before]) for before, now in pairwise(counts))
    return {"figures": {"enforced_first_hour": first, "enforced_second_hour": second}}


def producer_ids(broker: LocalBroker) -> int:
    """Return how many PIDs the broker has in its memory."""
    with closing(KafkaAdminClient(bootstrap_servers=broker.admin_servers)) as admin:
        (state,) = admin.describe_producers([TopicPartition(ORDERS, 0)]).values()
        return len(state.active_producers)

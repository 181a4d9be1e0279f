"""Counts the PIDs that a flood gets under enforcement, in the first and in the second window.

A user asks for 738 new PIDs a second, and uses each. The quota is 100 per window. The window is 120 s and stands for an
hour: what passes before the first hold doesn't depend on its length. Kafka's DescribeProducers lists the PIDs that the
broker's metric ProducerIdCount counts.
"""

import time
from contextlib import closing
from functools import partial

from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartition

from bench.kit import ORDERS, Found, figure, in_background, running_broker, running_product
from bench.raw_client import flood

QUOTA, RATE, WINDOW_S = 100, 738, 120
REPEATS_A_WINDOW = 20


def measure(share: float) -> Found:
    window_s = max(60, round(share * WINDOW_S))
    of_plugin = {"pid_quota_window_ms": 1000 * window_s, "pid_quota_repeat_ms": 1000 * window_s // REPEATS_A_WINDOW}
    options = {"enforce": "true", "window_seconds": window_s}
    counts = list[int]()
    with (
        running_broker(**of_plugin) as (broker, folder),
        running_product(broker, folder / "run", QUOTA, "1 second", **options) as child,
        in_background(partial(flood, broker, "mallory", RATE, int)),
    ):
        for _ in range(2):
            time.sleep(window_s)
            child.is_alive()
            with closing(KafkaAdminClient(bootstrap_servers=broker.admin_servers)) as admin:
                (state,) = admin.describe_producers([TopicPartition(ORDERS, 0)]).values()
            counts.append(len(state.active_producers))
    first, both = counts
    figures = {"enforced_first_hour": figure([first]), "enforced_second_hour": figure([both - first])}
    return {"figures": figures, "details": {"enforced_window_s": window_s}}

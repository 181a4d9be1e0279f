"""Measures `pid-quota run` beside a big cluster: cores, memory, decisions, and a flood.

The cluster has 20,000 principals with 10 PIDs each, and 1 % of the PIDs are new each hour. Each PID writes to three of
12 brokers: 2,000 records and 20,000 events a second. The trigger is 5 s. The time of a decision is that from the record
of a user over the quota to the commit in the table of decisions. The lag of a flood is by how much it delays the 99th
percentile of other users' decisions.
"""

import time

import numpy as np

from bench.kit import Child, Found, decided_s, figure, metered, pss_mb, running_broker, running_product, wait_until
from bench.loads import REPEAT_MS, Cluster, Plugins, exceed, flood_records, traffic
from broker.local.local_broker import LocalBroker

QUOTA = 100
CLUSTER = Cluster(principals=20_000, pids_each=10)
WARM_UP_S, MOST_PAUSE_S, DECIDED_S, DECISIONS = 60.0, 4.0, 60.0, 30


def measure(share: float) -> Found:
    cluster = Cluster(max(200, round(share * CLUSTER.principals)), CLUSTER.pids_each)
    with (
        running_broker() as (broker, folder),
        running_product(broker, folder / "run", QUOTA, "5 seconds") as child,
        traffic(broker, Plugins(cluster).records),
    ):
        # In the first interval, all PIDs are new.
        time.sleep(REPEAT_MS / 1000 + share * WARM_UP_S)
        calm_s, cores = decision_times(child, broker, share, "calm")
        memory_mb = pss_mb(child)
        with traffic(broker, flood_records):
            flooded_s, flooded_cores = decision_times(child, broker, share, "flooded")
    calm_p99_s, flooded_p99_s = (figure(each, 99)["value"] for each in (calm_s, flooded_s))
    figures = {
        "big_cluster_cpu_cores": figure([cores]),
        "big_cluster_rss_mb": figure([memory_mb]),
        "big_cluster_decision_p99_s": figure(calm_s, 99),
        "flood_lag_s": figure([max(0.0, flooded_p99_s - calm_p99_s)]),
    }
    return {"figures": figures, "details": {"flooded_p99_s": flooded_p99_s, "flooded_cores": flooded_cores}}


def decision_times(child: Child, broker: LocalBroker, share: float, name: str) -> tuple[list[float], float]:
    """Let users exceed their quotas one after another. Return the time of each decision, and the cores meanwhile."""
    random, sent_s = np.random.default_rng(), dict[str, float]()
    with metered(child) as cost:
        for number in range(max(3, round(share * DECISIONS))):
            child.is_alive()
            time.sleep(float(random.uniform(0, MOST_PAUSE_S)))
            principal = f"User:{name}-{number}"
            sent_s[principal] = exceed(broker, principal, QUOTA)
        wait_until(lambda: decided_s(child.folder).keys() >= sent_s.keys(), "all decisions", DECIDED_S, pause_s=1)
    found = decided_s(child.folder)
    return [found[principal] - at_s for principal, at_s in sent_s.items()], cost["cpu_s"] / cost["wall_s"]

"""Measures `pid-quota run` at rest, and how long a batch takes whatever it holds.

.venv/bin/python -m bench.steady
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.kit import Child, Found, figure, metered, pss_mb, running_broker, running_product
from bench.loads import Cluster, Plugins, traffic

QUOTA = 1_000
REST, CONSTANT = Cluster(principals=20, pids_each=100), Cluster(principals=200, pids_each=250)
"""200 and 5,000 events/s."""
WARM_UP_S, MEASURE_S, PIECES = 90.0, 60.0, 6


def measure(share: float) -> Found:
    with under(REST, share) as child:
        cores = list[float]()
        for _ in range(PIECES):
            with metered(child) as cost:
                time.sleep(share * MEASURE_S / PIECES)
            cores.append(cost["cpu_s"] / cost["wall_s"])
        memory_mb = pss_mb(child)
    with under(CONSTANT, share) as child:
        before = max(child.batches())
        time.sleep(share * MEASURE_S)
        child.await_batch(before + 2)
        taken_s = [end - begin for number, (begin, end) in child.batches().items() if number > before]
    figures = {
        "idle_cpu_cores": figure(cores),
        "run_rss_mb": figure([memory_mb]),
        "batch_constant_s": figure(taken_s),
    }
    return {"figures": figures}


@contextmanager
def under(cluster: Cluster, share: float) -> Iterator[Child]:
    """Run a broker, its traffic and `pid-quota run` with a trigger of 1 s, and wait until these are warm."""
    with (
        running_broker() as (broker, folder),
        running_product(broker, folder / "run", QUOTA, "1 second") as child,
        traffic(broker, Plugins(cluster).records),
    ):
        time.sleep(share * WARM_UP_S)
        yield child
        child.is_alive()

"""The heap of a broker that has many producer ids."""

import re
import shutil
import time
from collections.abc import Mapping

from bench.loads import BenchError
from bench.many_producers import Connection, batch_of
from bench.plugin_loads import Target
from broker.kafka.report_tail import newest_states
from jvm.process import run_to_end
from wire.plugin_reports import PluginState

PARTITIONS = 100
"""Partitions of the topic. A request has a batch, so a producer id, per partition."""
HEAP_MB = 1536
"""Heap limit of the broker. Its own memory of a million producer ids takes some 300 MB."""
_OUTSTANDING = 5
_FIRST_ID = 1 << 41
_EVENTS_S = 300.0
_JCMD_S = 120.0


def fill(target: Target, pids: int) -> None:
    """Write a message of each of `pids` producer ids."""
    now_ms = time.time_ns() // 1_000_000
    with Connection(target.host, target.port, target.topic) as connection:
        for first in range(_FIRST_ID, _FIRST_ID + pids, PARTITIONS):
            ids = range(first, min(first + PARTITIONS, _FIRST_ID + pids))
            connection.produce({each - first: batch_of(each, 0, now_ms) for each in ids})
            if connection.outstanding > _OUTSTANDING:
                connection.receive()
        while connection.outstanding:
            connection.receive()


def state_when_delivered(settings: Mapping[str, str]) -> PluginState:
    """Wait until the plugin of a cluster's only broker has no event to deliver, and return its state.

    Raises:
        BenchError: If the plugin still has events.
    """
    give_up_at = time.monotonic() + _EVENTS_S
    begun_ms = 1000 * time.time()
    while True:
        (found,) = newest_states(settings).values()
        if found.appended_ms > begun_ms and not found.state.waiting_pids:
            return found.state
        if time.monotonic() > give_up_at:
            msg = f"the plugin still has events of {found.state.waiting_pids:,} PIDs after {_EVENTS_S:.0f} s"
            raise BenchError(msg)
        time.sleep(1)


def live_heap_mb(pid: int) -> float:
    """Return a JVM's heap after a full collection, in MB.

    Raises:
        BenchError: If there is no `jcmd`, which is part of a JDK.
    """
    jcmd = shutil.which("jcmd")
    if jcmd is None:
        msg = "jcmd is missing: install a JDK, or measure without the heap (--heap-pids 0)"
        raise BenchError(msg)
    run_to_end([jcmd, str(pid), "GC.run"], _JCMD_S)
    _, output = run_to_end([jcmd, str(pid), "GC.heap_info"], _JCMD_S)
    used = re.findall(r"(?:heap|generation|Gen) +total \d+K, used (\d+)K", output)
    return round(sum(map(int, used)) * 1024 / 1_000_000, 1)

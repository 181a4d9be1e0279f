"""The measured costs that the model computes with: each with its unit, and the command that measures it again."""

from dataclasses import dataclass

_TAP = "bench/size_tap.py"
_PARTS = "bench/size_parts.py"
_STREAM = "bench/size_stream.py"
_TICK_PIDS = f"{_STREAM} --principals 2000 --pids 200000 --brokers 10 --brokers-per-pid 1 --batch 100000 --seconds 60"
_LARGE = f"{_STREAM} --principals 2000 --pids 200000 --brokers 10 --batch 300000 --seconds 50"
"""Set against `_TICK_PIDS`, where each PID is on one broker: two batches, and two costs to be found."""
_COST = "bench/cost.py --batches 25000,250000"
_LATENCY = "bench/latency.py --rate 5000 --principals 200 --sink deltalake"


@dataclass(frozen=True)
class Measured:
    """A measured figure.

    Attributes:
        value: The median.
        unit: `us`, `ms`, `bytes`, `MiB`, `events` or `share`; times are CPU time unless `what` says wall time.
        what: What it is the cost of.
        command: Measures it.
    """

    value: float
    unit: str
    what: str
    command: str


COSTS = {
    "tap_event": Measured(7.1, "us", "tap: a line, and its event in a record of its own", _TAP),
    "line_bytes": Measured(229, "bytes", "a line of the class in a broker", _TAP),
    "event_bytes": Measured(166, "bytes", "an event in a record of its own, before compression", _STREAM),
    "event_disk_bytes": Measured(44, "bytes", "the same on a broker's disk, in large lz4 batches", _STREAM),
    "batch": Measured(962, "ms", "Spark: a batch, whatever is in it", _COST),
    "principal": Measured(98.8, "us", "Spark: a principal with something new in a batch", _COST),
    "event": Measured(8.8, "us", "Spark: an event in a record of its own, up to the shuffle", _LARGE),
    "tick_pid": Measured(5.5, "us", "Spark: a PID that its tick has not had yet, after the shuffle", _TICK_PIDS),
    "new_pid": Measured(10.3, "us", "Spark: a PID that its ledger does not hold yet", _PARTS),
    "batch_wall": Measured(606, "ms", "wall time of a batch, whatever is in it, on two cores", _COST),
    "busy": Measured(
        0.70, "share", "of the cores that a batch keeps busy: CPU time over wall time of two cores", _COST
    ),
    "row": Measured(10.5, "us", "driver: a metrics row, decoded and appended", _PARTS),
    "row_collected_bytes": Measured(317, "bytes", "driver: a metrics row as it is collected", _PARTS),
    "row_table_bytes": Measured(12, "bytes", "a metrics row in its table, in files of thousands", _PARTS),
    "roster_change": Measured(0.14, "us", "driver: a tracked principal, in a batch that adds or forgets one", _PARTS),
    "roster_look": Measured(1.1, "us", "a task: a principal looked up in the roster", _PARTS),
    "roster_bytes": Measured(8, "bytes", "a tracked principal in the roster's file", _PARTS),
    "ledger_bytes": Measured(311, "bytes", "a ledger without its PIDs", _PARTS),
    "ledger_pid_bytes": Measured(13.6, "bytes", "a PID that is used all the time, in all layers of the filter", _PARTS),
    "reading_wall": Measured(80, "ms", "wall time until a reader sees an appended decision", _LATENCY),
}


def seconds(name: str) -> float:
    """Return a cost in seconds.

    Examples:
        >>> seconds("batch_wall")
        0.606
    """
    cost = COSTS[name]
    return cost.value / {"us": 1e6, "ms": 1e3}[cost.unit]


def amount(name: str) -> float:
    """Return a figure that is no time, in its own unit."""
    return COSTS[name].value


ERROR = "off by up to 20 %"
"""CPU time and state, where the model was checked."""

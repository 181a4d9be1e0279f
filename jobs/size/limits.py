"""Which limit a cluster reaches first, and what to do then. Pure."""

from dataclasses import dataclass

from jobs.size.costs import amount, seconds
from jobs.size.model import MOST_STATE_PARTITIONS, Cluster, Stream, Taps

HALF = 0.5


@dataclass(frozen=True)
class Settings:
    """What bounds a deployment; the defaults of the commands, unless given.

    Attributes:
        events_per_batch: At most, by `--max-offsets-per-trigger`.
        max_principals: That are tracked one by one.
        max_uncharged_bytes: Filter of a principal's PIDs that take no token.
        collected_bytes: What Spark's driver collects at most (`spark.driver.maxResultSize`).
        partitions: Of the cluster, each with its leader.
        partitions_per_request: Asked for their producers at once.
        requests_per_s: Of these questions, by one tap.
        window_s: Of the quota.
    """

    events_per_batch: int
    max_principals: int
    max_uncharged_bytes: int
    collected_bytes: int
    partitions: int
    partitions_per_request: int
    requests_per_s: float
    window_s: float


@dataclass(frozen=True)
class SizeLimit:
    """A limit, and how near it is.

    Attributes:
        name: What is limited.
        used: Of it, in `unit`.
        bound: In `unit`.
        unit: Such as `events`.
        then: What to do when it is reached.
    """

    name: str
    used: float
    bound: float
    unit: str
    then: str

    @property
    def share(self) -> float:
        """Share of the bound that is used."""
        return self.used / self.bound


def limits(cluster: Cluster, tapped: Taps, stream: Stream, settings: Settings) -> list[SizeLimit]:
    """Return all limits, the one that gives first at the top."""
    batch, trigger_s, largest = stream.batch, cluster.trigger_s, cluster.shares[0]
    questions_s = settings.partitions / settings.partitions_per_request / settings.requests_per_s
    roster_s = cluster.principals * seconds("roster_change")
    # Rows of an interval are due together.
    rows_s = cluster.principals * seconds("row")
    found = [
        SizeLimit(
            "a tap's core",
            tapped.core_of_one,
            1.0,
            "cores",
            "a broker's lines have one tap, of one thread: spread leaders over more brokers",
        ),
        SizeLimit(
            "events of a batch",
            batch.events,
            settings.events_per_batch,
            "events",
            "raise --max-offsets-per-trigger, with memory for it, or shorten --trigger",
        ),
        SizeLimit(
            "one partition per principal",
            batch.reading_s * largest,
            HALF * trigger_s,
            "s a batch",
            "the largest principal's events are one task: split it into several principals, or lengthen --trigger",
        ),
        SizeLimit(
            "a batch's fixed time",
            seconds("batch_wall"),
            HALF * trigger_s,
            "s a batch",
            "lengthen --trigger: planning, stages and commits take this long on any number of cores",
        ),
        SizeLimit(
            "the driver's collect, time",
            rows_s + roster_s,
            HALF * trigger_s,
            "s a batch",
            "all rows of an interval pass one driver: lengthen --metrics-interval-seconds or --trigger",
        ),
        SizeLimit(
            "the driver's collect, bytes",
            cluster.principals * amount("row_collected_bytes"),
            settings.collected_bytes,
            "bytes",
            "raise spark.driver.maxResultSize, and the driver's memory with it",
        ),
        SizeLimit(
            "the roster",
            cluster.principals,
            settings.max_principals,
            "principals",
            "raise --max-principals: each costs 8 bytes of a file that every task reads, and a ledger",
        ),
        SizeLimit(
            "PIDs of one principal that take no token",
            cluster.pids * largest * amount("ledger_pid_bytes"),
            settings.max_uncharged_bytes,
            "bytes",
            "raise --max-uncharged-bytes: what does not fit is reported, and its principal not enforced",
        ),
        SizeLimit(
            "learning by asking",
            questions_s,
            settings.window_s,
            "s",
            "describe_producers takes that long: taps learn by waiting instead, for a window",
        ),
        SizeLimit(
            "state partitions",
            batch.rules_wall_s(MOST_STATE_PARTITIONS),
            HALF * trigger_s,
            "s a batch",
            f"the rules run in {MOST_STATE_PARTITIONS} tasks at most, however many cores there are: lengthen ticks by "
            "fewer layers (--layer-count), or --trigger",
        ),
    ]
    return sorted(found, key=lambda each: -each.share)

"""What a cluster takes of taps, topic and stream: a model of `jobs.size.costs`. Pure: no file, no clock.

Each PID produces at the same rate, to as many brokers, at random times. The PIDs of principals follow Zipf's law. So
the number of events is that of pairs of PID and broker that are seen in an interval: for each a line is written.
"""

import math
from dataclasses import dataclass
from functools import cached_property

from jobs.size.costs import amount, seconds

DAY_S = 86_400
MOST_CORES = 4096
REMEMBERED_PIDS = 500_000
"""PIDs that a worker remembers per topic partition (`streaming/decode/forwarded.py`); beyond it, it forgets them."""
MOST_STATE_PARTITIONS = 8
"""Of a new checkpoint on one host (`streaming/session.py`): the rules run in as many tasks at most."""
HEADROOM = 0.7
"""Share of the trigger that a batch may take: what is left catches up after an outage."""
TAP_ROUND_S = 0.1
"""How long an idle tap waits for lines."""
_TAP_LINGER_S = 0.02


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A Kafka cluster, and how it is watched.

    Attributes:
        brokers: How many.
        produce_requests: Requests per second of all of them.
        batches_per_request: Partitions of a request.
        principals: Who produce.
        pids: In use at a time.
        new_pids_per_hour: Of all principals.
        brokers_per_pid: To which a PID writes.
        skew: Exponent of Zipf's law: 0 if all principals are alike.
        repeats_s: The class in a broker leaves out a PID's repeats for so long.
        tick_s: The stream does so.
        trigger_s: Interval of batches.
        metrics_interval_s: Of an active principal's rows.
        retention_h: Of the topic.
    """

    brokers: int
    produce_requests: float
    principals: int
    pids: int
    new_pids_per_hour: float = 0.0
    batches_per_request: float = 1.0
    brokers_per_pid: int = 3
    skew: float = 0.8
    repeats_s: float = 10.0
    tick_s: float = 10.0
    trigger_s: float = 5.0
    metrics_interval_s: float = 60.0
    retention_h: float = 24.0

    @cached_property
    def shares(self) -> list[float]:
        """Each principal's share of the PIDs, the largest first."""
        weights = [rank**-self.skew for rank in range(1, self.principals + 1)]
        total = sum(weights)
        return [weight / total for weight in weights]

    @property
    def batches_per_s(self) -> float:
        """Batches that clients append, per second."""
        return self.produce_requests * self.batches_per_request

    @property
    def new_pids_per_s(self) -> float:
        """New PIDs per second."""
        return self.new_pids_per_hour / 3600


@dataclass(frozen=True)
class Taps:
    """What all taps take, and the busiest broker's if brokers are alike.

    Attributes:
        file_bytes_per_s: Lines of one broker.
        cores: Of all taps.
        core_of_one: Share of a core that one tap takes: it has one thread.
        events_per_s: What all taps send, one for each line.
        records_per_s: At least, if a tap sends a round's events of a principal as one.
    """

    file_bytes_per_s: float
    cores: float
    core_of_one: float
    events_per_s: float
    records_per_s: float


def taps(cluster: Cluster) -> Taps:
    """Return what the taps take."""
    pairs = cluster.pids * min(cluster.brokers_per_pid, cluster.brokers)
    events = _distinct(pairs, cluster.batches_per_s, cluster.repeats_s) + cluster.new_pids_per_s
    cores = events * seconds("tap_event")
    written = events * amount("line_bytes") / cluster.brokers
    return Taps(written, cores, cores / cluster.brokers, events, _records(cluster, events))


def _records(cluster: Cluster, events_per_s: float) -> float:
    """Return records per second, if a round of a tap makes one of each principal."""
    brokers, each = cluster.brokers, min(cluster.brokers_per_pid, cluster.brokers)
    found = 0.0
    for share in cluster.shares:
        # Brokers that one of the principal's PIDs writes to.
        pids = max(1.0, cluster.pids * share)
        written = brokers * (1 - (1 - each / brokers) ** pids)
        found += _distinct(written, events_per_s * share, TAP_ROUND_S)
    return found


def _distinct(kinds: float, per_s: float, interval_s: float) -> float:
    """Return how many of so many kinds are seen per second, if each counts once in an interval."""
    return -kinds * math.expm1(-per_s / kinds * interval_s) / interval_s if kinds else 0.0


@dataclass(frozen=True)
class Batch:
    """A batch of the stream in steady state.

    Attributes:
        events: It reads.
        active_principals: Those with a PID that its tick has not had yet.
        tick_pids: These PIDs: all other events end before the shuffle.
        cpu_s: CPU time in all.
        reading_s: Of that, to read and pre-aggregate its events.
        rules_s: Of that, for principals and their PIDs.
        largest_share: Of its events, those of the largest principal, all in one partition.
        least_partitions: Of the topic, so that workers remember the PIDs of a tick.
    """

    events: float
    active_principals: float
    tick_pids: float
    cpu_s: float
    reading_s: float
    rules_s: float
    largest_share: float
    least_partitions: int

    def wall_s(self, cores: int) -> float:
        """Return the expected wall time; no number of cores makes it shorter than its largest partition takes."""
        partitions = max(self.least_partitions, 2 * cores)
        share = self.largest_share + (1 - self.largest_share) / partitions
        reading_s = self.reading_s * max(share, 1 / (cores * amount("busy")))
        return seconds("batch_wall") + reading_s + self.rules_wall_s(cores)

    def rules_wall_s(self, cores: int) -> float:
        """Return the wall time of the rules, which run in one task per state partition."""
        return self.rules_s / (min(cores, MOST_STATE_PARTITIONS) * amount("busy"))


def batch(cluster: Cluster, partitions: int | None = None) -> Batch:
    """Return a batch in steady state.

    Args:
        cluster: Its source.
        partitions: Of the topic; None for as many as the PIDs need.
    """
    least = max(4, math.ceil(2 * cluster.pids / REMEMBERED_PIDS))
    events = taps(cluster).events_per_s * cluster.trigger_s
    new_pids = cluster.new_pids_per_s * cluster.trigger_s
    if cluster.pids / (partitions or least) < REMEMBERED_PIDS:
        news = _distinct(cluster.pids, cluster.batches_per_s, cluster.tick_s) * cluster.trigger_s
    else:
        # Forgotten between batches: within one each PID counts once.
        news = _distinct(cluster.pids, events / cluster.trigger_s, cluster.trigger_s) * cluster.trigger_s
    news += new_pids
    active = sum(-math.expm1(-news * share) for share in cluster.shares)
    reading_s = events * seconds("event")
    rules_s = active * seconds("principal") + news * seconds("tick_pid") + new_pids * seconds("new_pid")
    cpu_s = seconds("batch") + reading_s + rules_s
    return Batch(events, active, news, cpu_s, reading_s, rules_s, cluster.shares[0], least)


@dataclass(frozen=True)
class Stream:
    """What the stream needs.

    Attributes:
        cores: Of all executors, so that a batch takes its share of the trigger; None if no number is enough.
        partitions: Of the topic: two tasks a core even out partitions that differ, more remember more PIDs.
        state_partitions: Of a new checkpoint.
        batch: In steady state.
        batch_wall_s: With these cores.
        p50_s: From a produce to its decision, median.
        p99_s: The same, 99th percentile.
    """

    cores: int | None
    partitions: int
    state_partitions: int
    batch: Batch
    batch_wall_s: float
    p50_s: float
    p99_s: float


def stream(cluster: Cluster) -> Stream:
    """Return what the stream needs."""
    of_batch = batch(cluster)
    enough_s = HEADROOM * cluster.trigger_s
    cores = next((each for each in range(1, MOST_CORES + 1) if of_batch.wall_s(each) <= enough_s), None)
    tasks = cores or MOST_CORES
    wall_s = of_batch.wall_s(tasks)
    # An event waits for the next trigger, half of it on average, or for the batch that runs when it arrives.
    waits_s = max(cluster.trigger_s, wall_s)
    known_s = TAP_ROUND_S / 2 + _TAP_LINGER_S + wall_s + seconds("reading_wall")
    state_partitions = min(tasks, MOST_STATE_PARTITIONS)
    delays = (known_s + waits_s / 2, known_s + waits_s)
    return Stream(cores, max(of_batch.least_partitions, 2 * (cores or 0)), state_partitions, of_batch, wall_s, *delays)


@dataclass(frozen=True)
class Storage:
    """Bytes.

    Attributes:
        topic_per_s: Of the topic, before compression and replication.
        topic_disk: Of the topic for its retention, compressed, of one copy.
        state: Of all ledgers.
        rows_per_day: Of metrics.
        tables_per_day: Of these rows.
    """

    topic_per_s: float
    topic_disk: float
    state: float
    rows_per_day: float
    tables_per_day: float


def storage(cluster: Cluster) -> Storage:
    """Return what is stored."""
    events = taps(cluster).events_per_s
    interval_s, new = cluster.metrics_interval_s, cluster.new_pids_per_s
    # A row per interval, and one per batch with new PIDs.
    regular = sum(-math.expm1(-cluster.batches_per_s * interval_s * share) for share in cluster.shares) / interval_s
    besides = sum(-math.expm1(-new * cluster.trigger_s * share) for share in cluster.shares) / cluster.trigger_s
    rows = (regular + besides) * DAY_S
    return Storage(
        events * amount("event_bytes"),
        events * amount("event_disk_bytes") * cluster.retention_h * 3600,
        cluster.principals * amount("ledger_bytes") + cluster.pids * amount("ledger_pid_bytes"),
        rows,
        rows * amount("row_table_bytes"),
    )

"""Evidence about a client that keeps requesting producer ids, and patterns in the evidence."""

from dataclasses import dataclass

from lifecycle.known_clients import known_client
from lifecycle.producer_lives import Lives

MIN_NEW_PIDS = 5
"""Fewer new ids are not churn."""
START_SECONDS = 30.0
"""A process that opens its producers at startup opens all of them within this time."""
START_OF_MANY_SECONDS = 600.0
"""Processes that start one after the other all start within this time."""
MAX_PIDS_OF_A_START = 100
MAX_PIDS_PER_ADDRESS = 1000
"""Maximum number of processes that share an address, for example a NAT gateway's."""
MIN_FLEET_HOSTS = 3
MAX_PIDS_PER_FLEET_HOST = 3
RESTART_SECONDS = 2.0
"""No supervisor keeps restarting a process at shorter intervals than this: Docker backs off, systemd gives up."""
FLOOD_PIDS_PER_HOUR = 100_000
"""The supervisors behind one address don't keep restarting processes faster than this."""
GROWING_SHARE = 0.75
GROWING_SHARE_OF_MANY = 0.65
MIN_GROWING_TIMES = 16
"""Minimum number of waits for `GROWING_SHARE_OF_MANY`. Fewer waits often grow by chance."""
MIN_RESTART_SECONDS = 0.1
"""A process needs longer than this to start, get an id and end."""
MAX_OVERLAP_OF_RESTARTS = 0.5
MIN_CAPPED_TIMES = 9
CAPPED_SHARE = 0.2
SHRINKING_SHARE = 0.1
"""The waits of a backoff grow up to a limit, and hardly one of them is shorter than the one before."""
JAVA_DEFAULT = "producer-#"
"""Java's default client id without its number. A process numbers its producers: `producer-1`, `producer-2`."""
MIN_COUNTED = 20
MIN_COUNTED_ON = 5
COUNTED_SHARE = 0.25
MAX_POOL = 50
"""A process that opens producers on demand, for example one per topic, needs at most this many."""
POOL_PIDS_PER_HOUR = 60
BURST_SECONDS = 5.0
TRANSACTIONAL_SHARE = 0.8
MIN_STEP_PIDS = 3.0


@dataclass(frozen=True, kw_only=True)
class ChurnEvidence:
    """Evidence about a client.

    Attributes:
        client: Client id without numbers and generated parts (view `recent_inits`).
        span_seconds: Time from the first new id to the last.
        free_pids: New ids before the principal's first hold. Later ids come at the brokers' pace.
        free_seconds: Time from the first of these ids to the last.
        silent_seconds: Time from the last new id to now.
        median_life_seconds: Median time from a new id to the next id of the same address; None without a next id.
        life_spread: Interquartile range of these times divided by their median.
        growing_share: Share of these times that are at least a fifth longer than the previous time.
        shrinking_share: Share of these times that are at least a fifth shorter than the previous time.
        errors_before_share: Share of the new ids that follow an error.
        error_answers: Requests answered with an error, except retriable errors.
        client_ids: Distinct client ids that got new producer ids.
        counted_ids: Pairs of address and client id whose first id came 30 s or more after the address's first id.
        steps: Groups of new ids separated by pauses of 45 s.
        transactional_ids: Transactional ids that got their first producer id.
        expired_ids: Producer ids given to transactional ids that the coordinator had forgotten while they were idle.
        rotations: Producer ids that EndTxn handed out (transaction version 2), estimated from a sample.
        rotation_seconds: Median time in use of these ids.
        fences: How often an admin client, such as Connect's leader, fenced a transactional id before a start.
        instances: How often a producer started with a transactional id that was in use before.
        instance_seconds: Median time between these starts.
        returns: How often a transactional id returned to an address and client id that had it before.
        fenced_answers: Answers that tell a producer that another producer took over its transactional id.
        throttles: Throttles of the principal. They may have ended its requests early.
        throttled_now: Whether the principal is throttled now. If so, a pause does not show that requests have ended.
        lives: How long the ids were in use; None if brokers were not asked.
    """

    client: str
    new_pids: int
    span_seconds: float
    free_pids: int = 0
    free_seconds: float = 0.0
    silent_seconds: float = 3600.0
    median_life_seconds: float | None = None
    life_spread: float | None = None
    growing_share: float | None = None
    shrinking_share: float | None = None
    errors_before_share: float = 0.0
    error_answers: int = 0
    hosts: int = 1
    client_ids: int = 1
    counted_ids: int = 0
    steps: int = 1
    transactional_ids: int = 0
    expired_ids: int = 0
    rotations: int = 0
    rotation_seconds: float | None = None
    fences: int = 0
    instances: int = 0
    instance_seconds: float | None = None
    returns: int = 0
    fenced_answers: int = 0
    throttles: int = 0
    throttled_now: bool = False
    lives: Lives | None = None

    @property
    def pids_per_hour(self) -> float:
        """New producer ids per hour that no hold has slowed down, over at least a minute unless a hold cut it short."""
        if MIN_NEW_PIDS <= self.free_pids < self.new_pids:
            return self.free_pids * 3600 / max(1.0, self.free_seconds)
        return self.new_pids * 3600 / max(60.0, self.span_seconds)

    @property
    def goes_on(self) -> bool:
        """Whether more new ids are likely to come, or came while the client was last in use."""
        if self.throttled_now:
            return True
        quiet_seconds = self.silent_seconds if self.lives is None else self.lives.quiet_seconds
        return quiet_seconds < max(START_SECONDS, self.span_seconds / 4)

    @property
    def is_start(self) -> bool:
        """Whether all ids came at once, as from a starting process."""
        return self.span_seconds <= START_SECONDS and self.new_pids < MAX_PIDS_OF_A_START

    @property
    def is_single_group(self) -> bool:
        """Whether ids came in one short group, as from processes that start in turn."""
        short = self.steps <= 1 and self.span_seconds <= START_OF_MANY_SECONDS and not self.goes_on
        return self.is_start or (short and self.new_pids < MAX_PIDS_OF_A_START)

    @property
    def is_rare(self) -> bool:
        """Whether each address requests at most about one id per hour."""
        return self.new_pids <= max(1, self.hosts) * (1 + self.span_seconds / 3600)

    @property
    def is_pool(self) -> bool:
        """Whether each process has few producers, opened one after the other."""
        return self.counts_up and self.counted_ids < MAX_POOL * max(1, self.hosts)

    @property
    def is_slow_pool(self) -> bool:
        """Whether a process may still open the producers of a pool, one after the other."""
        return self.is_pool and self.pids_per_hour < POOL_PIDS_PER_HOUR

    @property
    def is_burst(self) -> bool:
        """Whether the ids of a group come at once, as those of a job."""
        return self.is_in_steps and (self.median_life_seconds or 0.0) <= BURST_SECONDS

    @property
    def is_crowded(self) -> bool:
        """Whether there are too many ids to be one per process in each group."""
        return self.new_pids > MAX_PIDS_PER_ADDRESS * max(1, self.hosts) * max(1, self.steps)

    @property
    def is_flood(self) -> bool:
        """Whether ids come faster than supervisors restart processes."""
        return self.pids_per_hour > FLOOD_PIDS_PER_HOUR * max(1, self.hosts)

    @property
    def is_transactional(self) -> bool:
        """Whether most new ids belong to transactional ids."""
        return 0 < TRANSACTIONAL_SHARE * self.new_pids <= self.transactional_ids + self.expired_ids

    @property
    def is_reused(self) -> bool:
        """Whether transactional ids are used in turn, as in a pool, rather than once."""
        return self.instances >= max(1, self.transactional_ids)

    @property
    def names_anew(self) -> bool:
        """Whether the client is a tool's that takes new transactional ids at each start by design."""
        known = known_client(self.client)
        return known is not None and known.names_anew

    @property
    def is_fleet(self) -> bool:
        """Whether the client has many addresses with a few ids each."""
        return self.hosts >= MIN_FLEET_HOSTS and self.new_pids <= MAX_PIDS_PER_FLEET_HOST * self.hosts

    @property
    def is_in_steps(self) -> bool:
        """Whether ids came in groups separated by pauses."""
        return self.steps >= 2 and self.new_pids >= MIN_STEP_PIDS * self.steps

    def has_steps_apart(self, seconds: float) -> bool:
        """Whether ids came in groups that are on average at least this far apart."""
        return self.is_in_steps and self.span_seconds >= seconds * (self.steps - 1)

    @property
    def counts_up(self) -> bool:
        """Whether Java's default client id counts up, which shows that each address has only one process."""
        enough = max(MIN_COUNTED * max(1, self.hosts), COUNTED_SHARE * self.new_pids)
        return self.client == JAVA_DEFAULT and self.counted_ids >= enough

    @property
    def counts_on(self) -> bool:
        """Whether Java's default client id counts up a little on each address."""
        return self.client == JAVA_DEFAULT and self.counted_ids >= MIN_COUNTED_ON * max(1, self.hosts)

    @property
    def is_fast(self) -> bool:
        """Whether ids come faster than any supervisor restarts a process, and not only in groups."""
        often = self.pids_per_hour * RESTART_SECONDS > 3600 * max(1, self.hosts)
        return often and self.median_life_seconds is not None and self.median_life_seconds < RESTART_SECONDS

    @property
    def is_at_once(self) -> bool:
        """Whether ids overlap, or come faster than one process can end and start again."""
        is_fast = self.median_life_seconds is not None and self.median_life_seconds < MIN_RESTART_SECONDS
        return is_fast or (self.lives is not None and self.lives.overlap_share > MAX_OVERLAP_OF_RESTARTS)

    @property
    def grows(self) -> bool:
        """Whether the waits between ids grow, as in a supervisor's backoff."""
        if self.is_at_once:
            return False
        growing = self.growing_share or 0.0
        is_capped = self.new_pids >= MIN_CAPPED_TIMES * self.hosts and growing >= CAPPED_SHARE
        if is_capped and self.shrinking_share is not None and self.shrinking_share <= SHRINKING_SHARE:
            return True
        many = self.new_pids - 2 * self.hosts >= MIN_GROWING_TIMES
        return growing >= (GROWING_SHARE_OF_MANY if many else GROWING_SHARE)

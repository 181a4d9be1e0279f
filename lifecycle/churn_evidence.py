"""Evidence about a client that keeps requesting producer ids, and patterns in it."""

from dataclasses import dataclass

from lifecycle.producer_lives import Lives

MIN_NEW_PIDS = 5
"""Fewer new ids are no churn."""
START_SECONDS = 30.0
"""A process that opens all its producers at startup is done by then."""
START_OF_MANY_SECONDS = 600.0
"""Processes that start one after the other are done by then."""
MAX_PIDS_OF_A_START = 100
MAX_PIDS_PER_ADDRESS = 1000
"""An address, such as that of a NAT gateway, hides at most this many processes."""
MAX_CALM_PIDS = 24
MIN_FLEET_HOSTS = 3
MAX_PIDS_PER_FLEET_HOST = 3
RESTART_SECONDS = 2.0
"""No supervisor keeps restarting faster: Docker and Kubernetes back off, systemd gives up."""
FLOOD_PIDS_PER_HOUR = 100_000
"""No number of supervisors behind one address keeps restarting as fast."""
REGULAR_SPREAD = 0.5
GROWING_SHARE = 0.75
GROWING_SHARE_OF_MANY = 0.65
MIN_GROWING_TIMES = 16
"""Of this many waits, two thirds hardly grow by chance."""
JAVA_DEFAULT = "producer-#"
"""Java's own client id, which counts up the producers of one process: `producer-1`, `producer-2`."""
MIN_COUNTED = 20
COUNTED_SHARE = 0.25
MAX_POOL = 50
"""A process that opens producers on demand, one per topic for example, needs at most this many."""
TRANSACTIONAL_SHARE = 0.8
MIN_STEP_PIDS = 3.0
RARE_STEP_SECONDS = 1800.0
"""Groups of new ids at least this far apart on average are deploys rather than checkpoints or replicas that crash."""
MIN_STEPS_OF_LEAK = 5
"""Fewer groups that stay in use may be the waves of a roll-out."""
DEPLOY_STEP_SECONDS = 7200.0
"""Groups at least this far apart on average are likely deploys; jobs and supervisors come back sooner."""


@dataclass(frozen=True, kw_only=True)
class ChurnEvidence:
    """Evidence about a client.

    Attributes:
        client: Its client id without numbers and generated parts (view `recent_inits`).
        new_pids: Producer ids it got.
        span_seconds: From the first of them to the last.
        silent_seconds: From the last of them to now.
        median_life_seconds: Time until the next new id of the same address; None if there was none.
        life_spread: Interquartile range of that time over its median; None likewise.
        growing_share: Share of these times at least a fifth longer than the previous; None if fewer than two.
        errors_before_share: Share of the ids that follow an error.
        error_answers: Requests answered with an error, except retriable ones.
        client_ids: Distinct client ids that got new producer ids.
        counted_ids: Distinct pairs of address and client id, each first seen 30 s or more after the address's first id.
        steps: Groups of new ids separated by pauses of 45 s.
        transactional_ids: Transactional ids that got new producer ids.
        instances: Times its transactional ids were taken over, by itself or another.
        instance_seconds: Median time between take-overs; None if fewer than two.
        returns: Times one was taken back after another had taken it over.
        fenced_answers: Errors that say that another instance has taken over.
        throttles: Throttles of its principal: they may have cut its requests short.
        throttled_now: Whether its principal is throttled, so that silence does not show that requests have ended.
        lives: How long its ids were in use; None if brokers were not asked.
    """

    client: str
    new_pids: int
    span_seconds: float
    silent_seconds: float = 3600.0
    median_life_seconds: float | None = None
    life_spread: float | None = None
    growing_share: float | None = None
    errors_before_share: float = 0.0
    error_answers: int = 0
    hosts: int = 1
    client_ids: int = 1
    counted_ids: int = 0
    steps: int = 1
    transactional_ids: int = 0
    instances: int = 0
    instance_seconds: float | None = None
    returns: int = 0
    fenced_answers: int = 0
    throttles: int = 0
    throttled_now: bool = False
    lives: Lives | None = None

    @property
    def pids_per_hour(self) -> float:
        """New producer ids per hour over its span, at least a minute."""
        return self.new_pids * 3600 / max(60.0, self.span_seconds)

    @property
    def goes_on(self) -> bool:
        """Whether new ids are likely still coming."""
        return self.throttled_now or self.silent_seconds < max(START_SECONDS, self.span_seconds / 4)

    @property
    def is_start(self) -> bool:
        """Whether all ids came at once, as from a process that starts."""
        return self.span_seconds <= START_SECONDS and self.new_pids < MAX_PIDS_OF_A_START

    @property
    def is_single_group(self) -> bool:
        """Whether ids came in one short group, as from processes that start one after the other."""
        short = self.steps <= 1 and self.span_seconds <= START_OF_MANY_SECONDS and not self.goes_on
        return self.is_start or (short and self.new_pids < MAX_PIDS_OF_A_START)

    @property
    def is_rare(self) -> bool:
        """Whether each address requests about one id an hour or fewer."""
        return self.new_pids <= max(1, self.hosts) * (1 + self.span_seconds / 3600)

    @property
    def is_calm(self) -> bool:
        """Whether all addresses together request few ids, and each of them about one an hour or fewer."""
        return self.is_rare and self.new_pids <= MAX_CALM_PIDS

    @property
    def is_pool(self) -> bool:
        """Whether each process has few producers, opened one after the other."""
        return self.counts_up and self.counted_ids < MAX_POOL * max(1, self.hosts)

    @property
    def is_crowded(self) -> bool:
        """Whether there are more ids than processes that start once, in each group."""
        return self.new_pids > MAX_PIDS_PER_ADDRESS * max(1, self.hosts) * max(1, self.steps)

    @property
    def is_flood(self) -> bool:
        """Whether ids come faster than any number of supervisors restarts."""
        return self.pids_per_hour > FLOOD_PIDS_PER_HOUR * max(1, self.hosts)

    @property
    def is_transactional(self) -> bool:
        """Whether most new ids are those of new transactional ids."""
        return 0 < TRANSACTIONAL_SHARE * self.new_pids <= self.transactional_ids

    @property
    def is_fleet(self) -> bool:
        """Whether it has many addresses with a few ids each."""
        return self.hosts >= MIN_FLEET_HOSTS and self.new_pids <= MAX_PIDS_PER_FLEET_HOST * self.hosts

    @property
    def is_in_steps(self) -> bool:
        """Whether ids came in groups separated by pauses."""
        return self.steps >= 2 and self.new_pids >= MIN_STEP_PIDS * self.steps

    @property
    def is_in_waves(self) -> bool:
        """Whether ids came in a few groups, as those of a roll-out in several regions do."""
        return self.is_in_steps and self.steps < MIN_STEPS_OF_LEAK

    @property
    def has_rare_steps(self) -> bool:
        """Whether ids came in groups that are as far apart as deploys."""
        return self.is_in_steps and self.span_seconds >= RARE_STEP_SECONDS * (self.steps - 1)

    @property
    def has_steps_of_deploys(self) -> bool:
        """Whether ids came in groups that are too far apart for most jobs and supervisors."""
        return self.is_in_steps and self.span_seconds >= DEPLOY_STEP_SECONDS * (self.steps - 1)

    @property
    def counts_up(self) -> bool:
        """Whether Java's default client id counts up: one process; a new one would start at 1 again."""
        enough = max(MIN_COUNTED * max(1, self.hosts), COUNTED_SHARE * self.new_pids)
        return self.client == JAVA_DEFAULT and self.counted_ids >= enough

    @property
    def starts_anew(self) -> bool:
        """Whether each id is the first producer of a new process."""
        return self.client == JAVA_DEFAULT and self.client_ids == 1

    @property
    def is_fast(self) -> bool:
        """Whether ids come faster than any supervisor restarts, and not only in groups."""
        often = self.pids_per_hour * RESTART_SECONDS > 3600 * max(1, self.hosts)
        return often and self.median_life_seconds is not None and self.median_life_seconds < RESTART_SECONDS

    @property
    def grows(self) -> bool:
        """Whether waits grow, as a supervisor's backoff does and work does not."""
        many = self.new_pids - 2 * self.hosts >= MIN_GROWING_TIMES
        return (self.growing_share or 0.0) >= (GROWING_SHARE_OF_MANY if many else GROWING_SHARE)

    @property
    def is_regular(self) -> bool:
        """Whether ids come at regular intervals."""
        return self.life_spread is not None and self.life_spread <= REGULAR_SPREAD

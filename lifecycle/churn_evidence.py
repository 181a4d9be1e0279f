"""What is known of a client that asks for producer ids again and again, and the patterns in it."""

from __future__ import annotations

from dataclasses import dataclass

from lifecycle.producer_lives import Lives

MIN_NEW_PIDS = 5
"""Fewer are no churn, whatever they look like."""
START_SECONDS = 30.0
"""A process that opens all its producers at its start is done by then."""
MIN_FLEET_HOSTS = 3
MAX_PIDS_PER_FLEET_HOST = 3
RESTART_SECONDS = 2.0
"""No supervisor starts a process again in less for long: Docker and Kubernetes wait longer each time, systemd stops."""
REGULAR_SPREAD = 0.5
GROWING_SHARE = 0.75
GROWING_SHARE_OF_MANY = 0.65
MIN_GROWING_TIMES = 16
"""Of so many waits two thirds hardly grow by chance."""
JAVA_DEFAULT = "producer-#"
"""Java's own client id, which counts up the producers of one process: `producer-1`, `producer-2`."""
MIN_STEP_PIDS = 3.0


@dataclass(frozen=True, kw_only=True)
class ChurnEvidence:
    """What is known of a client.

    Attributes:
        client: Its client id without the number or UUID at its end.
        new_pids: Producer ids that it was given.
        span_seconds: From the first of them to the last.
        silent_seconds: From the last of them to now.
        median_life_seconds: Time until the next new one of the same address; None if there never was a next one.
        life_spread: Interquartile range of that time over its median; None as above.
        growing_share: Share of these times that are at least a fifth longer than the one before; None without two.
        errors_before_share: Share of the ids that follow an error.
        error_answers: Requests for ids that were answered with an error, but for those that only have to wait.
        hosts: Addresses that it came from.
        client_ids: Full client ids that it used.
        steps: Groups of new ids with a pause of 45 s between them.
        transactional_ids: Transactional ids that new producer ids were given to.
        instances: How often its transactional ids were taken over, by itself or by another one.
        instance_seconds: Median time between that; None if it never happened twice.
        returns: How often somebody took one back that another one had taken over.
        fenced_answers: Of the errors, those that say that another one has taken over.
        lives: How long the ids were in use; None if no broker was asked.
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
    steps: int = 1
    transactional_ids: int = 0
    instances: int = 0
    instance_seconds: float | None = None
    returns: int = 0
    fenced_answers: int = 0
    lives: Lives | None = None

    @property
    def pids_per_hour(self) -> float:
        """New producer ids per hour while it was at it, counted over a minute at least."""
        return self.new_pids * 3600 / max(60.0, self.span_seconds)

    @property
    def goes_on(self) -> bool:
        """Whether new ids still come, as far as can be told."""
        return self.silent_seconds < max(START_SECONDS, self.span_seconds / 4)

    @property
    def is_fleet(self) -> bool:
        """Many addresses with a few ids each."""
        return self.hosts >= MIN_FLEET_HOSTS and self.new_pids <= MAX_PIDS_PER_FLEET_HOST * self.hosts

    @property
    def is_in_steps(self) -> bool:
        """Whether ids came in groups with pauses between them."""
        return self.steps >= 2 and self.new_pids >= MIN_STEP_PIDS * self.steps

    @property
    def counts_up(self) -> bool:
        """One process counts on; one that starts anew begins with 1 again."""
        return self.client == JAVA_DEFAULT and self.client_ids >= max(
            MIN_NEW_PIDS, 0.5 * self.new_pids / max(1, self.hosts)
        )

    @property
    def starts_anew(self) -> bool:
        """A process each time: each one's first producer."""
        return self.client == JAVA_DEFAULT and self.client_ids == 1

    @property
    def is_fast(self) -> bool:
        """Whether ids come faster than any supervisor starts a process again."""
        return self.median_life_seconds is not None and self.median_life_seconds < RESTART_SECONDS

    @property
    def grows(self) -> bool:
        """Supervisors wait the same time or longer each time; work comes when it comes."""
        many = self.new_pids - 2 * self.hosts >= MIN_GROWING_TIMES
        return (self.growing_share or 0.0) >= (GROWING_SHARE_OF_MANY if many else GROWING_SHARE)

    @property
    def is_regular(self) -> bool:
        """Whether ids come at much the same distance."""
        return self.life_spread is not None and self.life_spread <= REGULAR_SPREAD

"""Why a client asks for producer ids again and again: a diagnosis from what a broker can see of it.

Two sources: requests for producer ids, which the tables have, and how long the ids were in use since, which brokers
tell when they are asked. The view `principal_churn` holds the rules that need the first alone; a test compares the two.
Where what is seen fits two kinds alike, the diagnosis says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lifecycle.producer_lives import Lives

MIN_NEW_PIDS = 5
"""Fewer are no churn, whatever they look like."""
START_SECONDS = 30.0
"""A process that opens all its producers at its start is done by then."""
MAX_PIDS_OF_A_START = 100
ERROR_SHARE = 0.5
MIN_ERRORS = 5
"""So many error answers, and more than ids: a client that asks again and again in vain."""
MIN_FLEET_HOSTS = 3
MAX_PIDS_PER_FLEET_HOST = 3
LONG_LIFE_SECONDS = 600.0
RESTART_SECONDS = 2.0
"""No supervisor starts a process again in less for long: Docker and Kubernetes wait longer each time, systemd stops."""
REGULAR_SPREAD = 0.5
GROWING_SHARE = 0.75
GROWING_SHARE_OF_MANY = 0.65
MIN_GROWING_TIMES = 16
"""Of so many waits two thirds hardly grow by chance."""
JAVA_DEFAULT = "producer-#"
"""Java's own client id, which counts up the producers of one process: `producer-1`, `producer-2`."""
TRANSACTIONAL_SHARE = 0.8
MIN_RETURNS = 3
"""So often a transactional id went back to somebody who had lost it to another: two want it."""
RETURN_SECONDS = 600.0
"""Rivals take it back at their next transaction; what moves slower may be a deploy that comes back to a host."""
MIN_INSTANCES = 5
INSTANCE_SECONDS = 60.0
"""Who takes its transactional id again so often, sooner than that, restarts in a loop or has a rival."""
MIN_STEP_PIDS = 3.0
KEPT_SHARE = 0.8
MIN_LEAKED_PIDS = 50
"""Fewer that are opened one after the other and kept may be a roll-out that has not ended yet."""
MIN_OUTLIVED = 3.0
DEPLOY_SECONDS = 60.0
MANY_PIDS = 20
"""Fewer from an address do not show for sure that they have no rhythm."""
WORK_SECONDS = 1.0
"""What is in use for so long did more than send a batch."""


class Churn(str, Enum):
    """What a client does."""

    PER_MESSAGE = "producer per message/batch"
    LEAK = "leak"
    RESTART_LOOP = "restart loop"
    ON_ERROR = "new producer on error"
    FENCING_WAR = "fencing war"
    NEW_TRANSACTIONAL_ID = "new transactional id each time"
    DEPLOY = "deploy"
    SCALE_OUT = "scale-out"
    HEALTHY = "healthy"
    CANT_TELL = "can't tell"


HARMLESS = frozenset({Churn.DEPLOY, Churn.SCALE_OUT, Churn.HEALTHY})
"""Nothing has to be mended."""


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


@dataclass(frozen=True)
class Diagnosis:
    """What a client does, as far as it can be told.

    Attributes:
        kind: What it does.
        could_be: What else what is seen fits, less well; all that it fits, if `kind` is that nobody can tell.
    """

    kind: Churn
    could_be: tuple[Churn, ...] = ()

    @property
    def is_sure(self) -> bool:
        """Whether nothing else fits."""
        return not self.could_be

    @property
    def is_harmless(self) -> bool:
        """Whether nothing has to be mended, whatever it is."""
        fitting = self.could_be if self.kind is Churn.CANT_TELL else (self.kind,)
        return HARMLESS.issuperset(fitting)


def diagnose(evidence: ChurnEvidence) -> Diagnosis:
    """Say what a client does.

    Examples:
        >>> diagnose(ChurnEvidence(client="app", new_pids=9000, span_seconds=900, median_life_seconds=0.1)).kind.value
        'producer per message/batch'
    """
    found = _without_rhythm(evidence)
    if found is not None:
        return found
    lives = evidence.lives
    return _by_requests(evidence) if lives is None else _by_lives(evidence, lives)


def _without_rhythm(evidence: ChurnEvidence) -> Diagnosis | None:
    seconds, returns = evidence.instance_seconds, evidence.returns >= MIN_RETURNS
    at_once = seconds is None or seconds < RETURN_SECONDS
    if (returns and at_once) or (evidence.fenced_answers >= 2 and evidence.instances >= MIN_RETURNS):
        return Diagnosis(Churn.FENCING_WAR)
    if evidence.error_answers >= MIN_ERRORS and evidence.error_answers > evidence.new_pids:
        return Diagnosis(Churn.ON_ERROR)
    if evidence.instances >= MIN_INSTANCES and seconds is not None and seconds < INSTANCE_SECONDS:
        # Rivals behind one address, of the same name, look like one that restarts.
        return Diagnosis(Churn.CANT_TELL, (Churn.RESTART_LOOP, Churn.FENCING_WAR))
    if evidence.new_pids < MIN_NEW_PIDS:
        return Diagnosis(Churn.HEALTHY, (Churn.FENCING_WAR,) if returns else ())
    just_begun = evidence.silent_seconds < START_SECONDS
    is_start = evidence.span_seconds <= START_SECONDS and evidence.new_pids < MAX_PIDS_OF_A_START
    if is_start and not (just_begun and evidence.lives):
        return Diagnosis(Churn.HEALTHY, (Churn.PER_MESSAGE,) if just_begun else ())
    return Diagnosis(Churn.ON_ERROR) if evidence.errors_before_share >= ERROR_SHARE else None


def _by_requests(evidence: ChurnEvidence) -> Diagnosis:
    """What requests alone tell: nobody knows whether an id is still in use."""
    if evidence.is_fleet:
        return Diagnosis(Churn.SCALE_OUT, (Churn.PER_MESSAGE,) if evidence.goes_on else ())
    if evidence.transactional_ids >= TRANSACTIONAL_SHARE * evidence.new_pids:
        return Diagnosis(Churn.NEW_TRANSACTIONAL_ID, () if evidence.goes_on else (Churn.SCALE_OUT,))
    life = evidence.median_life_seconds
    if life is not None and life >= LONG_LIFE_SECONDS:
        return Diagnosis(Churn.HEALTHY)
    if evidence.grows:
        # Before the steps: the last waits of a back-off are pauses, too.
        return Diagnosis(Churn.RESTART_LOOP)
    if evidence.is_in_steps:
        return Diagnosis(Churn.DEPLOY, (Churn.PER_MESSAGE,))
    if evidence.starts_anew:
        return Diagnosis(Churn.RESTART_LOOP, (Churn.SCALE_OUT,))
    if evidence.counts_up or evidence.is_fast:
        return Diagnosis(Churn.PER_MESSAGE, (Churn.LEAK,))
    if not evidence.is_regular:
        return Diagnosis(Churn.PER_MESSAGE, (Churn.LEAK, Churn.RESTART_LOOP))
    return Diagnosis(Churn.CANT_TELL, (Churn.RESTART_LOOP, Churn.PER_MESSAGE, Churn.LEAK, Churn.SCALE_OUT))


def _by_lives(evidence: ChurnEvidence, lives: Lives) -> Diagnosis:
    if lives.kept_share >= KEPT_SHARE:
        return _of_kept(evidence)
    if evidence.transactional_ids >= TRANSACTIONAL_SHARE * evidence.new_pids:
        return Diagnosis(Churn.NEW_TRANSACTIONAL_ID)
    if lives.outlived >= MIN_OUTLIVED and lives.used_seconds >= DEPLOY_SECONDS:
        # Several processes that restart each for itself end at any time, not in steps.
        return Diagnosis(Churn.DEPLOY, () if evidence.is_in_steps else (Churn.RESTART_LOOP,))
    return _of_ended(evidence, lives)


def _of_kept(evidence: ChurnEvidence) -> Diagnosis:
    if evidence.is_fleet or not evidence.goes_on:
        at_once = evidence.span_seconds <= START_SECONDS and not evidence.is_fleet
        return Diagnosis(Churn.HEALTHY if at_once else Churn.SCALE_OUT)
    if evidence.counts_up or evidence.new_pids >= MIN_LEAKED_PIDS:
        return Diagnosis(Churn.LEAK)
    return Diagnosis(Churn.CANT_TELL, (Churn.LEAK, Churn.SCALE_OUT))


def _of_ended(evidence: ChurnEvidence, lives: Lives) -> Diagnosis:
    works = lives.used_seconds >= WORK_SECONDS
    if evidence.counts_up:
        return Diagnosis(Churn.PER_MESSAGE)
    if evidence.starts_anew:
        return Diagnosis(Churn.RESTART_LOOP)
    if evidence.is_fast or evidence.is_fleet:
        # Several processes that restart behind one address, or each with another one, ask as often.
        return Diagnosis(Churn.PER_MESSAGE, (Churn.RESTART_LOOP,) if works else ())
    if lives.on_schedule and not works:
        return Diagnosis(Churn.PER_MESSAGE)
    if evidence.grows:
        return Diagnosis(Churn.RESTART_LOOP)
    if works and lives.down_spread <= REGULAR_SPREAD < lives.used_spread:
        # It ends when it ends, and the supervisor waits for as long each time.
        return Diagnosis(Churn.RESTART_LOOP)
    if not evidence.is_regular and not works:
        few = evidence.new_pids < MANY_PIDS * evidence.hosts
        return Diagnosis(Churn.PER_MESSAGE, (Churn.RESTART_LOOP,) if few else ())
    return Diagnosis(Churn.CANT_TELL, (Churn.RESTART_LOOP, Churn.PER_MESSAGE))


def what_decides(diagnosis: Diagnosis, *, with_lives: bool) -> str:
    """Return what would tell the kinds apart that a diagnosis leaves open; empty if it is sure."""
    if diagnosis.is_sure:
        return ""
    fitting = frozenset((diagnosis.kind, *diagnosis.could_be))
    if Churn.FENCING_WAR in fitting:
        return "whether two instances with this transactional.id run at once; a client.id of its own for each shows it"
    if not with_lives:
        return "how long each producer id is in use: brokers tell, give --bootstrap-servers"
    if Churn.LEAK in fitting:
        return "whether it stops: a roll-out ends, a leak goes on"
    return "whether the process is the same: its supervisor's log, or a client.id that names the process"

"""Diagnoses why a client keeps requesting producer ids, from what a broker can observe.

Two sources: requests for producer ids, which the tables hold, and how long each id was in use, which brokers report.
The view `principal_churn` repeats the rules that need requests only; a test compares the two. If the evidence fits
several kinds, the diagnosis names them.
"""

from dataclasses import dataclass
from enum import Enum

from lifecycle.churn_evidence import MIN_NEW_PIDS, REGULAR_SPREAD, START_SECONDS, ChurnEvidence
from lifecycle.producer_lives import Lives

MAX_PIDS_OF_A_START = 100
MAX_PIDS_OF_A_FLEET = 1000
"""Ids of one address: it hides at most this many processes that start once."""
ERROR_SHARE = 0.5
MIN_ERRORS = 5
"""At least this many errors, and more errors than ids: the client retries in vain."""
LONG_LIFE_SECONDS = 600.0
TRANSACTIONAL_SHARE = 0.8
MIN_RETURNS = 3
"""A transactional id taken back this often from a rival: two instances compete for it."""
RETURN_SECONDS = 600.0
"""Rivals take it back within a transaction; slower moves may be a deploy that returns to a host."""
MIN_INSTANCES = 5
INSTANCE_SECONDS = 60.0
"""Taking over its own id `MIN_INSTANCES` times, faster than this, means a restart loop or a rival."""
KEPT_SHARE = 0.8
MIN_LEAKED_PIDS = 50
"""Fewer ids, opened one by one and kept, may be a roll-out in progress."""
MIN_OUTLIVED = 3.0
DEPLOY_SECONDS = 60.0
MIN_REPLACED_SHARE = 0.5
"""Share of the ended ids that a deploy ends as the next ones begin."""
MANY_PIDS = 20
"""Fewer ids per address do not prove irregularity."""
WORK_SECONDS = 1.0
"""An id in use this long did more than send one batch."""


class Churn(str, Enum):
    """Kinds of churn."""

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
"""Kinds that need no fix."""


@dataclass(frozen=True)
class Diagnosis:
    """A kind of churn, and its alternatives.

    Attributes:
        could_be: Other kinds that fit, less well; all that fit if `kind` is CANT_TELL.
    """

    kind: Churn
    could_be: tuple[Churn, ...] = ()

    @property
    def is_sure(self) -> bool:
        """Whether no other kind fits."""
        return not self.could_be

    @property
    def is_harmless(self) -> bool:
        """Whether the likely kind needs no fix, or none that fits if it can't tell; alternatives may need one."""
        return HARMLESS.issuperset(self.fitting)

    @property
    def may_be_harmless(self) -> bool:
        """Whether the likely kind needs no fix, or one of those that fit if it can't tell."""
        return not HARMLESS.isdisjoint(self.fitting)

    @property
    def fitting(self) -> tuple[Churn, ...]:
        """The likely kind, or all that fit if it can't tell."""
        return self.could_be if self.kind is Churn.CANT_TELL else (self.kind,)


def diagnose(evidence: ChurnEvidence) -> Diagnosis:
    """Diagnose a client.

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
        # Rivals behind one address, with one client id, look like a restart loop, and so does a pool of ids.
        rivals = (Churn.RESTART_LOOP, Churn.FENCING_WAR)
        no_churn = evidence.new_pids < MIN_NEW_PIDS
        return Diagnosis(Churn.HEALTHY, rivals) if no_churn else Diagnosis(Churn.CANT_TELL, rivals)
    if evidence.new_pids < MIN_NEW_PIDS:
        return Diagnosis(Churn.HEALTHY, (Churn.FENCING_WAR,) if returns else ())
    just_begun = evidence.silent_seconds < START_SECONDS
    is_start = evidence.span_seconds <= START_SECONDS and evidence.new_pids < MAX_PIDS_OF_A_START
    if is_start and not (just_begun and evidence.lives):
        return Diagnosis(Churn.HEALTHY, (Churn.PER_MESSAGE,) if just_begun else ())
    return Diagnosis(Churn.ON_ERROR) if evidence.errors_before_share >= ERROR_SHARE else None


def _by_requests(evidence: ChurnEvidence) -> Diagnosis:
    """Diagnose by requests alone, without knowing whether ids are still in use."""
    if evidence.is_fleet:
        return Diagnosis(Churn.SCALE_OUT, (Churn.PER_MESSAGE,) if evidence.goes_on else ())
    if evidence.transactional_ids >= TRANSACTIONAL_SHARE * evidence.new_pids:
        return _of_transactional_ids(evidence)
    life = evidence.median_life_seconds
    if life is not None and life >= LONG_LIFE_SECONDS:
        return Diagnosis(Churn.HEALTHY, (Churn.LEAK,))
    if evidence.grows:
        # Before the steps: the last waits of a backoff are pauses, too.
        return Diagnosis(Churn.RESTART_LOOP)
    if evidence.is_in_steps:
        others = (Churn.PER_MESSAGE, Churn.LEAK, Churn.RESTART_LOOP)
        if evidence.has_steps_of_deploys:
            return Diagnosis(Churn.DEPLOY, others)
        return Diagnosis(Churn.CANT_TELL, (Churn.DEPLOY, *others))
    if evidence.starts_anew:
        return Diagnosis(Churn.RESTART_LOOP, (Churn.SCALE_OUT,))
    return _by_pace(evidence)


def _of_transactional_ids(evidence: ChurnEvidence) -> Diagnosis:
    if evidence.has_rare_steps:
        return Diagnosis(Churn.DEPLOY, (Churn.NEW_TRANSACTIONAL_ID,))
    return Diagnosis(Churn.NEW_TRANSACTIONAL_ID, (Churn.DEPLOY,) if evidence.goes_on else (Churn.SCALE_OUT,))


def _by_pace(evidence: ChurnEvidence) -> Diagnosis:
    if evidence.counts_up:
        return Diagnosis(Churn.PER_MESSAGE, (Churn.LEAK,))
    # One address may hide several processes, or a fleet that has started.
    one_address = evidence.hosts <= 1
    small = evidence.new_pids < MAX_PIDS_OF_A_FLEET
    may_be_start = one_address and small and evidence.steps == 1 and not evidence.goes_on
    if (evidence.is_fast and not may_be_start) or not (evidence.is_regular or one_address):
        return Diagnosis(Churn.PER_MESSAGE, (Churn.LEAK, Churn.RESTART_LOOP))
    return Diagnosis(Churn.CANT_TELL, (Churn.RESTART_LOOP, Churn.PER_MESSAGE, Churn.LEAK, Churn.SCALE_OUT))


def _by_lives(evidence: ChurnEvidence, lives: Lives) -> Diagnosis:
    if lives.kept_share >= KEPT_SHARE:
        return _of_kept(evidence)
    transactional = evidence.transactional_ids >= TRANSACTIONAL_SHARE * evidence.new_pids
    overlapped = lives.outlived >= MIN_OUTLIVED and lives.used_seconds >= DEPLOY_SECONDS
    if overlapped and (evidence.has_rare_steps or not transactional):
        return _of_overlapped(evidence, lives)
    if transactional:
        return Diagnosis(Churn.NEW_TRANSACTIONAL_ID)
    return _of_ended(evidence, lives)


def _of_overlapped(evidence: ChurnEvidence, lives: Lives) -> Diagnosis:
    if lives.replaced_share >= MIN_REPLACED_SHARE:
        # Processes that restart independently do not end in steps.
        return Diagnosis(Churn.DEPLOY, () if evidence.is_in_steps else (Churn.RESTART_LOOP,))
    # Jobs, and workers that are recycled, end before the next ones begin.
    if evidence.is_in_steps:
        return Diagnosis(Churn.PER_MESSAGE, (Churn.DEPLOY, Churn.RESTART_LOOP))
    return Diagnosis(Churn.CANT_TELL, (Churn.RESTART_LOOP, Churn.PER_MESSAGE, Churn.DEPLOY))


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
        # Several processes that restart behind one address, or with changing addresses, request ids as often.
        return Diagnosis(Churn.PER_MESSAGE, (Churn.RESTART_LOOP,) if works else ())
    if lives.on_schedule and not works:
        return Diagnosis(Churn.PER_MESSAGE)
    if evidence.grows:
        return Diagnosis(Churn.RESTART_LOOP)
    if works and lives.down_spread <= REGULAR_SPREAD < lives.used_spread:
        # It crashes at random times, and the supervisor waits equally long each time.
        return Diagnosis(Churn.RESTART_LOOP)
    if not evidence.is_regular and not works:
        few = evidence.new_pids < MANY_PIDS * evidence.hosts
        return Diagnosis(Churn.PER_MESSAGE, (Churn.RESTART_LOOP,) if few else ())
    return Diagnosis(Churn.CANT_TELL, (Churn.RESTART_LOOP, Churn.PER_MESSAGE))


def diagnosis_text(diagnosis: Diagnosis) -> str:
    """Return a diagnosis in words."""
    others = " or ".join(each.value for each in diagnosis.could_be)
    if diagnosis.kind is Churn.CANT_TELL:
        return f"can't tell: {others}"
    return diagnosis.kind.value if diagnosis.is_sure else f"likely {diagnosis.kind.value}, else {others}"


def what_decides(diagnosis: Diagnosis, *, with_lives: bool) -> str:
    """Return what would distinguish the kinds that fit; empty if the diagnosis is sure."""
    if diagnosis.is_sure:
        return ""
    fitting = frozenset((diagnosis.kind, *diagnosis.could_be))
    if Churn.FENCING_WAR in fitting:
        return "whether two instances use this transactional.id at once; give each its own client.id to see it"
    if not with_lives:
        return "how long each producer id is in use: give --bootstrap-servers to ask the brokers"
    if Churn.LEAK in fitting:
        return "whether it stops: a roll-out ends, a leak does not"
    return "whether the process is the same: its supervisor's log, or a client.id that names the process"

"""Why a client asks for producer ids again and again: a diagnosis from what a broker can see of it.

Two sources: requests for producer ids, which the tables have, and how long the ids were in use since, which brokers
tell when they are asked. The view `principal_churn` holds the rules that need the first alone; a test compares the two.
Where what is seen fits two kinds alike, the diagnosis says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lifecycle.churn_evidence import MIN_NEW_PIDS, REGULAR_SPREAD, START_SECONDS, ChurnEvidence
from lifecycle.producer_lives import Lives

MAX_PIDS_OF_A_START = 100
ERROR_SHARE = 0.5
MIN_ERRORS = 5
"""So many error answers, and more than ids: a client that asks again and again in vain."""
LONG_LIFE_SECONDS = 600.0
TRANSACTIONAL_SHARE = 0.8
MIN_RETURNS = 3
"""So often a transactional id went back to somebody who had lost it to another: two want it."""
RETURN_SECONDS = 600.0
"""Rivals take it back at their next transaction; what moves slower may be a deploy that comes back to a host."""
MIN_INSTANCES = 5
INSTANCE_SECONDS = 60.0
"""Who takes its transactional id again so often, sooner than that, restarts in a loop or has a rival."""
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


def diagnosis_text(diagnosis: Diagnosis) -> str:
    """Return a diagnosis in words."""
    others = " or ".join(each.value for each in diagnosis.could_be)
    if diagnosis.kind is Churn.CANT_TELL:
        return f"can't tell: {others}"
    return diagnosis.kind.value if diagnosis.is_sure else f"likely {diagnosis.kind.value}, else {others}"


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

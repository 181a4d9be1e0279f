"""Diagnoses why a client keeps requesting producer ids.

The tables hold the requests for producer ids, and brokers report how long each id was in use. Different causes can
leave the same evidence, so a diagnosis names all causes that fit, the likeliest first. `healthy` means that the ids are
too few to harm a broker.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import Enum

from lifecycle.churn_evidence import MIN_NEW_PIDS, REGULAR_SPREAD, ChurnEvidence
from lifecycle.producer_lives import Lives

ERROR_SHARE = 0.5
MIN_ERRORS = 5
"""A client with at least this many errors, and more errors than ids, retries in vain."""
MIN_RETURNS = 3
"""If a producer takes a transactional id back from another producer this often, the two may be rivals."""
MANY_RETURNS = 10
RETURN_SECONDS = 600.0
"""Rivals take over an id at shorter intervals than this. A deploy takes longer to bring an id back to a host."""
MIN_INSTANCES = 5
INSTANCE_SECONDS = 60.0
"""A client that takes over its transactional id at shorter intervals than this restarts in a loop or has a rival."""
KEPT_SHARE = 0.8
SURELY_KEPT_SHARE = 0.95
SURELY_KEPT_SECONDS = 300.0
SESSION_SECONDS = 3600.0
"""A producer per session or process may be in use for up to this long."""
MIN_LEAKED_PIDS = 50
ROLL_OUT_SECONDS = 3600.0
"""Ids that come one by one and stay in use may come from a roll-out, if they come within this time or are few."""
ENDED_SHARE = 0.9
BRIEF_SECONDS = 60.0
"""Ids of a deploy, and leaked ids, are in use for longer than this."""
REPLACED_SHARE = 0.5
"""After a deploy, at least this share of the ended ids ended when the next ids began."""
WORK_SECONDS = 1.0
"""An id in use for this long sent more than one batch."""


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
_PLAIN = (Churn.RESTART_LOOP, Churn.PER_MESSAGE, Churn.LEAK, Churn.DEPLOY, Churn.SCALE_OUT, Churn.HEALTHY)
_TRANSACTIONAL = (
    Churn.NEW_TRANSACTIONAL_ID,
    Churn.RESTART_LOOP,
    Churn.LEAK,
    Churn.DEPLOY,
    Churn.SCALE_OUT,
    Churn.HEALTHY,
)


@dataclass(frozen=True)
class Diagnosis:
    """A kind of churn, and its alternatives.

    Attributes:
        could_be: Other kinds, which fit less well. If `kind` is CANT_TELL, these are all kinds that fit.
        unlikely: Kinds that rarely leave such evidence.
    """

    kind: Churn
    could_be: tuple[Churn, ...] = ()
    unlikely: tuple[Churn, ...] = ()

    @property
    def is_harmless(self) -> bool:
        """Whether all likely kinds are harmless."""
        return HARMLESS.issuperset(self.fitting)

    @property
    def may_be_harmless(self) -> bool:
        """Whether a likely kind is harmless."""
        return not HARMLESS.isdisjoint(self.fitting)

    @property
    def fitting(self) -> tuple[Churn, ...]:
        """The likely kinds: `kind`, or `could_be` if `kind` is CANT_TELL."""
        return self.could_be if self.kind is Churn.CANT_TELL else (self.kind,)


def diagnose(evidence: ChurnEvidence) -> Diagnosis:
    """Diagnose a client.

    Examples:
        >>> known = ChurnEvidence(client="app", new_pids=3, span_seconds=900)
        >>> diagnose(known).kind.value
        'healthy'
    """
    found = _by_answers(evidence) or _by_pattern(evidence)
    if not found.could_be and found.kind is Churn.HEALTHY:
        return found
    named = {found.kind, *found.could_be, Churn.HEALTHY}
    return replace(found, unlikely=tuple(kind for kind in _kinds(evidence) if kind not in named))


def _by_pattern(evidence: ChurnEvidence) -> Diagnosis:
    unlikely = _unlikely(evidence)
    kinds = tuple(kind for kind in _kinds(evidence) if kind not in unlikely)
    first = _by_requests(evidence) if evidence.lives is None else _by_lives(evidence, evidence.lives)
    if first in kinds:
        return Diagnosis(first, tuple(kind for kind in kinds if kind is not first))
    return Diagnosis(kinds[0]) if len(kinds) == 1 else Diagnosis(Churn.CANT_TELL, kinds)


def _by_answers(evidence: ChurnEvidence) -> Diagnosis | None:
    """Diagnose a client that has errors, rivals or only a few new ids. Return None for other clients."""
    rivals = _of_rivals(evidence)
    if rivals is not None:
        return rivals
    in_vain = evidence.error_answers >= MIN_ERRORS and evidence.error_answers > evidence.new_pids
    if in_vain or (evidence.new_pids >= MIN_NEW_PIDS and evidence.errors_before_share >= ERROR_SHARE):
        return Diagnosis(Churn.ON_ERROR, (Churn.RESTART_LOOP,))
    if evidence.new_pids < MIN_NEW_PIDS:
        return Diagnosis(Churn.HEALTHY, (Churn.FENCING_WAR,) if evidence.returns >= MIN_RETURNS else ())
    return None


def _of_rivals(evidence: ChurnEvidence) -> Diagnosis | None:
    """Diagnose a client whose producers repeatedly take over a transactional id. Return None for other clients."""
    seconds = evidence.instance_seconds or 0.0
    fenced = evidence.fenced_answers >= 2 and evidence.instances >= MIN_RETURNS
    if fenced or (evidence.returns >= MANY_RETURNS and seconds < INSTANCE_SECONDS):
        return Diagnosis(Churn.FENCING_WAR)
    if evidence.returns >= MIN_RETURNS and seconds < RETURN_SECONDS:
        # A task that fails on one worker may restart on another worker.
        return Diagnosis(Churn.FENCING_WAR, (Churn.RESTART_LOOP,))
    often = evidence.instances >= max(MIN_INSTANCES, evidence.new_pids)
    if often and evidence.instance_seconds is not None and seconds < INSTANCE_SECONDS:
        # Rivals that share an address and a client id look like a restart loop. So does a pool of transactional ids.
        both = (Churn.RESTART_LOOP, Churn.FENCING_WAR)
        few = evidence.new_pids < MIN_NEW_PIDS
        return Diagnosis(Churn.HEALTHY, both) if few else Diagnosis(Churn.CANT_TELL, (*both, Churn.HEALTHY))
    return None


def _kinds(evidence: ChurnEvidence) -> tuple[Churn, ...]:
    if evidence.is_transactional:
        return _TRANSACTIONAL
    return tuple(sorted(_PLAIN, key=lambda kind: kind is not Churn.DEPLOY)) if evidence.is_in_steps else _PLAIN


def _unlikely(evidence: ChurnEvidence) -> AbstractSet[Churn]:
    found: set[Churn] = set()
    if not (evidence.is_single_group or evidence.is_rare or evidence.is_pool):
        found.add(Churn.HEALTHY)
    if evidence.counts_up:
        # The client ids of one process count up. A new process would start at 1 again.
        found |= {Churn.RESTART_LOOP, Churn.DEPLOY, Churn.SCALE_OUT}
    if evidence.is_crowded:
        found |= {Churn.DEPLOY, Churn.SCALE_OUT}
    return found if evidence.lives is None else found | _unlikely_by_lives(evidence, evidence.lives)


def _unlikely_by_lives(evidence: ChurnEvidence, lives: Lives) -> AbstractSet[Churn]:
    if lives.kept_share >= SURELY_KEPT_SHARE and lives.kept_seconds >= SURELY_KEPT_SECONDS:
        found = {Churn.RESTART_LOOP, Churn.NEW_TRANSACTIONAL_ID}
        if not evidence.counts_up or lives.kept_seconds >= SESSION_SECONDS:
            found.add(Churn.PER_MESSAGE)
        if evidence.is_start and not evidence.goes_on:
            found.add(Churn.LEAK)
        return found
    if lives.used_seconds < BRIEF_SECONDS and lives.kept_share <= 1 - ENDED_SHARE:
        # A deploy's ids usually stay in use. If they hardly write, they still come in groups or from many addresses.
        like_deploys = evidence.is_fleet or evidence.has_rare_steps or evidence.is_single_group
        deploys = set() if like_deploys else {Churn.DEPLOY, Churn.SCALE_OUT}
        return deploys | ({Churn.RESTART_LOOP, Churn.LEAK} if evidence.is_flood else set())
    return {Churn.SCALE_OUT} if lives.replaced_share >= REPLACED_SHARE else set()


def _by_requests(evidence: ChurnEvidence) -> Churn:
    if evidence.grows:
        # Check this before steps: the last waits of a backoff also look like pauses between groups.
        return Churn.RESTART_LOOP
    if evidence.is_calm:
        return Churn.HEALTHY
    if evidence.is_start:
        return Churn.CANT_TELL if evidence.throttles else Churn.HEALTHY
    if evidence.has_steps_of_deploys:
        return Churn.DEPLOY
    if evidence.is_transactional and not evidence.is_in_steps:
        return Churn.NEW_TRANSACTIONAL_ID
    if evidence.is_fleet and not evidence.goes_on:
        return Churn.SCALE_OUT
    at_random = not evidence.is_in_steps and evidence.goes_on and not evidence.is_fleet
    return Churn.PER_MESSAGE if evidence.is_fast and at_random else Churn.CANT_TELL


def _by_lives(evidence: ChurnEvidence, lives: Lives) -> Churn:
    if lives.kept_share >= KEPT_SHARE:
        return _of_kept(evidence)
    replaced = lives.replaced_share >= REPLACED_SHARE and lives.used_seconds >= BRIEF_SECONDS
    if replaced and evidence.has_rare_steps:
        return Churn.DEPLOY
    if evidence.grows:
        return Churn.RESTART_LOOP
    if evidence.is_calm:
        return Churn.HEALTHY
    if evidence.is_transactional:
        return Churn.NEW_TRANSACTIONAL_ID
    if lives.used_seconds >= WORK_SECONDS and _is_supervised(lives):
        return Churn.RESTART_LOOP
    if lives.used_seconds < BRIEF_SECONDS:
        return _of_brief(evidence, lives)
    # Ids of periodic jobs end before the next ids begin.
    jobs = evidence.is_in_steps and not replaced
    return Churn.PER_MESSAGE if jobs or evidence.counts_up else Churn.CANT_TELL


def _is_supervised(lives: Lives) -> bool:
    """Return whether processes end after random times and restart after regular waits."""
    return lives.down_seconds > 0 and lives.down_spread <= REGULAR_SPREAD < lives.used_spread


def _of_kept(evidence: ChurnEvidence) -> Churn:
    if evidence.is_start:
        return Churn.HEALTHY
    if evidence.is_fleet:
        return Churn.SCALE_OUT
    lasting = evidence.goes_on and evidence.new_pids >= MIN_LEAKED_PIDS and evidence.span_seconds >= ROLL_OUT_SECONDS
    if evidence.counts_up or (lasting and not evidence.is_in_waves):
        return Churn.LEAK
    return Churn.SCALE_OUT if evidence.steps == 1 and not evidence.goes_on else Churn.CANT_TELL


def _of_brief(evidence: ChurnEvidence, lives: Lives) -> Churn:
    if evidence.counts_up or lives.on_schedule:
        return Churn.PER_MESSAGE
    if lives.used_seconds >= WORK_SECONDS or evidence.starts_anew:
        return Churn.PER_MESSAGE if evidence.is_fleet and not evidence.starts_anew else Churn.CANT_TELL
    return Churn.PER_MESSAGE if evidence.is_fast or evidence.is_fleet or not evidence.is_regular else Churn.CANT_TELL


def diagnosis_text(diagnosis: Diagnosis) -> str:
    """Return a diagnosis as text.

    Examples:
        >>> diagnosis_text(Diagnosis(Churn.LEAK, (Churn.DEPLOY,), (Churn.RESTART_LOOP, Churn.SCALE_OUT)))
        'likely leak, else deploy; unlikely restart loop or scale-out'
        >>> diagnosis_text(Diagnosis(Churn.HEALTHY))
        'healthy'
    """
    others, unlikely = _alternatives(diagnosis.could_be), _alternatives(diagnosis.unlikely)
    rest = f"; unlikely {unlikely}" if unlikely else ""
    if diagnosis.kind is Churn.CANT_TELL:
        return f"can't tell: {others}{rest}"
    if not others and not rest:
        return str(diagnosis.kind.value)
    return f"likely {diagnosis.kind.value}{f', else {others}' if others else ''}{rest}"


def _alternatives(kinds: Sequence[Churn]) -> str:
    names = [str(each.value) for each in kinds]
    return " or ".join([", ".join(names[:-1]), *names[-1:]] if len(names) > 1 else names)


def what_decides(diagnosis: Diagnosis, *, with_lives: bool) -> str:
    """Return what would tell the fitting kinds apart; empty if only one fits."""
    if not diagnosis.could_be:
        return ""
    fitting = frozenset((diagnosis.kind, *diagnosis.could_be))
    if Churn.FENCING_WAR in fitting:
        return "whether two instances use this transactional.id at once: give each its own client.id to see it"
    if Churn.ON_ERROR in fitting:
        return "whether the process survives an error: see its log"
    if not with_lives:
        return "how long each producer id is in use: give --bootstrap-server to ask the brokers"
    if Churn.LEAK in fitting and not fitting & {Churn.RESTART_LOOP, Churn.PER_MESSAGE}:
        return "whether new ids stop: a roll-out ends, a leak does not"
    if fitting <= {Churn.LEAK, Churn.PER_MESSAGE}:
        return "whether the client closes its producers: see its code; the fix is the same"
    return "whether one process makes all ids: see its supervisor's log, or use a client.id that names the process"

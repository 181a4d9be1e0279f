"""Kinds of churn: why a client keeps requesting producer ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Churn(str, Enum):
    """Kinds of churn."""

    PER_MESSAGE = "producer per message/batch"
    LEAK = "leak"
    RESTART_LOOP = "restart loop"
    ON_ERROR = "new producer on error"
    FENCING_WAR = "fencing war"
    NEW_TRANSACTIONAL_ID = "new transactional id each time"
    EXPIRED_IDLE = "expired while idle"
    ROTATION = "rotation by EndTxn"
    DEPLOY = "deploy"
    SCALE_OUT = "scale-out"
    HEALTHY = "healthy"
    CANT_TELL = "can't tell"


HARMLESS = frozenset({Churn.ROTATION, Churn.DEPLOY, Churn.SCALE_OUT, Churn.HEALTHY})
"""Kinds that need no fix."""


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

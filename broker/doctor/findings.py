"""The result of a check."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from broker.errors import BrokerError


class Verdict(str, Enum):
    """Whether a check passed."""

    OK = "ok"
    WARNING = "warning"
    """It works, with a limit that somebody should know."""
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """What a check found on one subject; `remedy` is the command that mends it, empty if nothing has to be done."""

    subject: str
    verdict: Verdict
    found: str
    remedy: str = ""


def ok(subject: str, found: str) -> Finding:
    """Return a passed check."""
    return Finding(subject, Verdict.OK, found)


def warning(subject: str, found: str, remedy: str) -> Finding:
    """Return a limit that somebody should know."""
    return Finding(subject, Verdict.WARNING, found, remedy)


def wrong(subject: str, found: str, remedy: str) -> Finding:
    """Return a failed check."""
    return Finding(subject, Verdict.WRONG, found, remedy)


def guarded(subject: str, check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """Run a check; one that the brokers refuse is a finding of its own, whose message ends with the remedy."""
    try:
        yield from check()
    except BrokerError as error:
        what, _, remedy = str(error).rpartition(": ")
        yield wrong(subject, what or str(error), remedy if what else "")

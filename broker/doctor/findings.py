"""The result of a check."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from broker.errors import BrokerError


class Verdict(str, Enum):
    """Whether a check passed."""

    OK = "ok"
    WARNING = "warning"
    """The subject works, but has a limit that the operator should know about."""
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """What a check found about one subject. `remedy` is empty if nothing is wrong."""

    subject: str
    verdict: Verdict
    found: str
    remedy: str = ""


def ok(subject: str, found: str) -> Finding:
    """Return the finding of a passed check."""
    return Finding(subject, Verdict.OK, found)


def warning(subject: str, found: str, remedy: str) -> Finding:
    """Return the finding that a subject works, but has a limit."""
    return Finding(subject, Verdict.WARNING, found, remedy)


def wrong(subject: str, found: str, remedy: str) -> Finding:
    """Return the finding of a failed check."""
    return Finding(subject, Verdict.WRONG, found, remedy)


def guarded(subject: str, check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """Run a check. Convert a BrokerError to a finding, whose remedy is the text after the error's last colon."""
    try:
        yield from check()
    except BrokerError as error:
        what, _, remedy = str(error).rpartition(": ")
        yield wrong(subject, what or str(error), remedy if what else "")

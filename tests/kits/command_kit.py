"""The type of the fixture that runs `pid-quota` in this process, and checks of its result."""

from typing import Protocol


class PidQuota(Protocol):
    """Runs a command; returns exit code, standard output and standard error."""

    def __call__(self, *arguments: object) -> tuple[int, str, str]: ...


def one_error(result: tuple[int, str, str], code: int = 1) -> str:
    """Check that a command printed one line of error and nothing else, and its exit code; return that line."""
    assert result[:2] == (code, "")
    assert result[2].startswith("error: ")
    assert result[2].count("\n") == 1
    return result[2]


def printed(result: tuple[int, str, str]) -> str:
    """Check that a command succeeded and printed no warning; return its output."""
    assert (result[0], result[2]) == (0, "")
    return result[1]

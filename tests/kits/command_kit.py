"""The type of the fixture that runs `pid-quota` in this process."""

from typing import Protocol


class PidQuota(Protocol):
    """Runs a command; returns exit code, standard output and standard error."""

    def __call__(self, *arguments: object) -> tuple[int, str, str]: ...

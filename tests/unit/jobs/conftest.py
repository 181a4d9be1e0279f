"""Shared by the tests of the commands."""

from collections.abc import Iterator

import pytest

from jobs import cli
from tests.kits.command_kit import PidQuota
from tests.kits.kip_kit import now


@pytest.fixture(autouse=True)
def a_clock_of_its_own() -> Iterator[None]:
    """Modules are imported many minutes before the last of their tests runs."""
    yield
    now.cache_clear()


@pytest.fixture
def pid_quota(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> PidQuota:
    """Run `pid-quota` in this process; returns exit code, standard output and standard error."""
    monkeypatch.delenv("PID_QUOTA_TABLES", raising=False)

    def run(*arguments: object) -> tuple[int, str, str]:
        code = cli.run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run

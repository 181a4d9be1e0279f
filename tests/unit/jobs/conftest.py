"""Shared by the tests of the commands."""

import pytest

from jobs import cli
from tests.unit.jobs.command_kit import PidQuota


@pytest.fixture
def pid_quota(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> PidQuota:
    """Run `pid-quota` in this process; returns exit code, standard output and standard error."""
    monkeypatch.delenv("PID_QUOTA_TABLES", raising=False)

    def run(*arguments: object) -> tuple[int, str, str]:
        code = cli.run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run

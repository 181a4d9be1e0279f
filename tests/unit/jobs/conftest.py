"""Shared by the tests of the commands."""

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from jobs import cli
from tables.store.path_tables import create_missing
from tests.kits import warehouse_kit
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


@pytest.fixture
def quotas(pid_quota: PidQuota, tmp_path: Path) -> PidQuota:
    """Run `pid-quota quotas` on tables in a folder of their own."""
    create_missing(str(tmp_path / "tables"))
    return partial(pid_quota, "quotas", "--tables", tmp_path / "tables")


@pytest.fixture
def warehouse(monkeypatch: pytest.MonkeyPatch) -> warehouse_kit.FakeWarehouse:
    return warehouse_kit.use(monkeypatch)


@pytest.fixture
def signals_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)

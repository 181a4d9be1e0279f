"""`pid-quota tables create`."""

from pathlib import Path

from tables.schema.specs import TABLES
from tests.kits.command_kit import PidQuota, printed
from tests.kits.upkeep_kit import versions


def test_tables_are_made_once(pid_quota: PidQuota, tmp_path: Path) -> None:
    first = printed(pid_quota("tables", "create", "--tables", tmp_path / "new"))
    made = versions(tmp_path / "new")

    second = printed(pid_quota("tables", "create", "--tables", tmp_path / "new"))

    assert [tuple(line.split()) for line in first.splitlines()[1:]] == [(name, "created") for name in TABLES]
    assert [tuple(line.split()) for line in second.splitlines()[1:]] == [(name, "unchanged") for name in TABLES]
    assert versions(tmp_path / "new") == made

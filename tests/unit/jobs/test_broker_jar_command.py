"""`pid-quota broker-jar`."""

from pathlib import Path

import pytest

from tests.kits.command_kit import PidQuota, one_error


def test_a_folder_that_is_a_file_is_one_line(
    pid_quota: PidQuota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = tmp_path / "built.jar"
    jar.touch()
    monkeypatch.setattr("jobs.setup.broker_jar.broker_jar", lambda: jar)
    (tmp_path / "libs").touch()

    error = one_error(pid_quota("broker-jar", tmp_path / "libs"))

    assert f"{tmp_path / 'libs'} can't be written (File exists)" in error

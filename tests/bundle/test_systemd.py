"""The unit of docs/systemd: systemd checks it, and the CLI checks its command."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kits.page_kit import accepted

UNITS = Path(__file__).parents[2] / "docs" / "systemd"
UNIT = UNITS / "pid-quota.service"
MAX_EXPOSED = 20
"""Tenths of systemd's scale, on which 100 is a service without any protection."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unit in a folder as systemd has it, with a program that exists."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (Debian: apt-get install systemd)")
    folder = tmp_path_factory.mktemp("system")
    shutil.copytree(UNITS, folder, dirs_exist_ok=True)
    unit = folder / UNIT.name
    unit.write_text(unit.read_text().replace("/opt/pid-quota/bin/pid-quota", shutil.which("true") or ""))
    return folder


def analyze(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"SYSTEMD_UNIT_PATH": f"{folder}:", "PATH": "/usr/bin:/bin"}
    command = ["systemd-analyze", "--no-pager", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_systemd_finds_nothing_to_say_of_the_unit(installed: Path) -> None:
    checked = analyze(installed, "verify", "--man=no", str(installed / UNIT.name))
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_service_is_in_the_sandbox(installed: Path) -> None:
    unit = str(installed / UNIT.name)
    checked = analyze(installed, "security", "--offline=true", f"--threshold={MAX_EXPOSED}", unit)
    assert checked.returncode == 0, checked.stdout


def test_the_command_is_run_with_variables_that_it_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # given the variables of the unit and of its file
    text = UNIT.read_text(encoding="utf-8")
    inline = " ".join(re.findall(r"^Environment=(.*)$", text, re.MULTILINE)).split()
    of_file = [line for line in (UNITS / "pid-quota.env").read_text(encoding="utf-8").splitlines() if "=" in line]
    variables = dict(each.lstrip("# ").split("=", 1) for each in [*inline, *of_file])
    # when the CLI reads them
    called = re.findall(r"^ExecStart=/opt/pid-quota/bin/pid-quota (.*)$", text, re.MULTILINE)
    values, others = accepted(called, variables, ("%d/", "/etc/"), tmp_path / "file", monkeypatch)
    # then each is of an option, or the place of the jars
    assert values
    assert (len(called), others) == (1, {"PID_QUOTA_JARS"})

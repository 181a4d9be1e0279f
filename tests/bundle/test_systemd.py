"""The units of docs/systemd: systemd checks the units, and the CLI checks their commands."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from jobs.cli import load_command

UNITS = Path(__file__).parents[2] / "docs" / "systemd"
SERVICES = sorted(UNITS.glob("*.service"))
MAX_EXPOSED = 20
"""Tenths of systemd's scale, on which 100 is a service without any protection."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The units in a folder as systemd has them, with a program that exists."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed (Debian: apt-get install systemd)")
    folder = tmp_path_factory.mktemp("system")
    shutil.copytree(UNITS, folder, dirs_exist_ok=True)
    for unit in folder.glob("*.service"):
        unit.write_text(unit.read_text().replace("/opt/pid-quota/bin/pid-quota", shutil.which("true") or ""))
    return folder


def analyze(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"SYSTEMD_UNIT_PATH": f"{folder}:", "PATH": "/usr/bin:/bin"}
    command = ["systemd-analyze", "--no-pager", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_systemd_finds_nothing_to_say_of_the_units(installed: Path) -> None:
    units = [str(unit) for unit in installed.iterdir() if unit.suffix in (".service", ".timer")]
    checked = analyze(installed, "verify", "--man=no", *units)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_systemd_finds_a_setting_that_does_not_exist(installed: Path, tmp_path: Path) -> None:
    text = (installed / "pid-quota-stream.service").read_text().replace("RestartSec=", "RestartPause=")
    (tmp_path / "pid-quota-stream.service").write_text(text)
    assert "RestartPause" in analyze(tmp_path, "verify", "--man=no", str(tmp_path / "pid-quota-stream.service")).stderr


@pytest.mark.parametrize("service", SERVICES, ids=lambda each: each.stem)
def test_each_service_is_in_the_sandbox(installed: Path, service: Path) -> None:
    unit = str(installed / service.name)
    checked = analyze(installed, "security", "--offline=true", f"--threshold={MAX_EXPOSED}", unit)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("service", SERVICES, ids=lambda each: each.stem)
def test_each_command_is_one_of_the_cli(service: Path) -> None:
    settings = dict(line.split("=", 1) for line in (UNITS / "pid-quota.env").read_text().splitlines() if "=" in line)
    settings["CREDENTIALS_DIRECTORY"] = "/run/credentials/of.service"
    (line,) = re.findall(r"^ExecStart=/opt/pid-quota/bin/pid-quota (.*)$", service.read_text(), re.MULTILINE)
    called, *arguments = shlex.split(re.sub(r"\$\{?(\w+)\}?", lambda name: settings[name[1]], line))

    command = load_command(called)

    assert command.make_context(called, arguments).params


def test_metrics_are_served_where_compose_s_prometheus_asks() -> None:
    ports = {
        service.stem: port for service in SERVICES for port in re.findall(r"--metrics-port (\d+)", service.read_text())
    }
    assert ports == {"pid-quota-stream": "9404"}


def test_the_page_names_every_unit() -> None:
    page = (UNITS / "README.md").read_text(encoding="utf-8")
    assert all(f"({unit.name})" in page for unit in UNITS.iterdir() if unit.suffix in (".service", ".timer", ".env"))

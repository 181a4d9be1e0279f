"""The wheel without extras, installed as a user would."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from broker.local.local_broker import LocalBroker
from tests.kits.wheel_kit import build_wheel

pytestmark = pytest.mark.slow

MAX_MB = 560
"""Most of it is Arrow, Delta and DuckDB; Spark would add as much again."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of an environment with `pid-quota` alone."""
    folder = tmp_path_factory.mktemp("host")
    wheel = build_wheel(folder)
    commands = folder / "venv" / "bin"
    subprocess.run([sys.executable, "-m", "venv", str(commands.parent)], check=True)
    pip = [str(commands / "python"), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", str(wheel)], check=True, capture_output=True)
    return commands


def pid_quota(host: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(host / "pid-quota"), *arguments]
    return subprocess.run(command, cwd=host, capture_output=True, text=True, timeout=120, check=False)


def test_it_takes_little_more_than_its_tables_need(host: Path) -> None:
    (packages,) = (host.parent / "lib").glob("python*/site-packages")
    of_the_environment = ("pip", "setuptools", "_distutils_hack", "pkg_resources")
    files = [file for file in packages.rglob("*") if file.is_file()]
    ours = [file for file in files if file.relative_to(packages).parts[0].partition("-")[0] not in of_the_environment]
    assert sum(file.stat().st_size for file in ours) <= MAX_MB * 1_000_000


@pytest.mark.parametrize("command", ["broker-jar", "topics", "release", "sql", "why", "console", "doctor"])
def test_commands_run_there(host: Path, command: str) -> None:
    assert f"Usage: pid-quota {command}" in pid_quota(host, command, "--help").stdout


def test_a_query_on_tables_runs_there(host: Path) -> None:
    assert pid_quota(host, "tables", "create", "--tables", "./t").returncode == 0
    assert pid_quota(host, "sql", "--tables", "./t", "SELECT 41 + 1 AS answer", "--csv").stdout == "answer\n42\n"


@pytest.mark.parametrize("command", ["run", "stream"])
def test_a_missing_spark_is_named_in_one_line_with_its_remedy(host: Path, command: str) -> None:
    place = ["--data", "./data"] if command == "run" else ["--tables", "./t", "--checkpoint", "./checkpoint"]
    ended = pid_quota(host, command, "--bootstrap-server", "127.0.0.1:9", *place)
    assert ended.returncode == 2
    remedy = r"Spark, which is not installed: pip install 'pid_quota-[^\n]*\[spark\]'\n$"
    assert re.search(rf"error: [^\n]*{remedy}", ended.stderr)


def test_it_makes_the_topics_of_a_cluster(host: Path, broker: LocalBroker) -> None:
    ended = pid_quota(host, "topics", "create", "--bootstrap-server", broker.admin_servers)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "produce-events: " in ended.stdout

"""The built wheel: its requirements, its files, and a run from a new virtual environment."""

import email
import os
import re
import shutil
import subprocess
import zipfile
from email.message import Message
from pathlib import Path

import pytest

from jvm.broker_jar import JAR_NAME, build_broker_jar
from tables.store.path_tables import create_missing
from tests.kits.wheel_kit import ROOT, build_wheel, venv_with_dependencies
from wire.plugin_reports import REPORTER_CLASS

PACKAGES = {"wire", "quota", "lifecycle", "state", "tables", "broker", "streaming", "jobs", "sql", "jvm"}
FOLDERS = PACKAGES | {"plugin"}
"""The packages, and the source of the brokers' jar."""


def run(*command: str | Path, cwd: Path) -> str:
    return subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def jar(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make broker-jar` writes."""
    return build_broker_jar(tmp_path_factory.mktemp("jar") / JAR_NAME, jars)


@pytest.fixture(scope="module")
def wheel(jar: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make wheel` builds, of a copy: other tests read the folders."""
    folder = tmp_path_factory.mktemp("source")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", JAR_NAME))
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, folder)
    shutil.copy(jar, folder / "jvm")
    return build_wheel(folder / "dist", folder)


@pytest.fixture(scope="module")
def fresh(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel itself; its dependencies come from ours, without a download."""
    folder = tmp_path_factory.mktemp("fresh")
    python = venv_with_dependencies(folder / "venv")
    run(python, "-m", "pip", "install", "--no-deps", "--no-index", "--disable-pip-version-check", wheel, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as content:
        return set(content.namelist())


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as content:
        (name,) = [name for name in content.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_string(content.read(name).decode())


def test_the_base_package_requires_neither_spark_nor_delta(wheel: Path) -> None:
    requirements = metadata(wheel).get_all("Requires-Dist", [])
    spark = [line for line in requirements if line.startswith(("pyspark", "delta-spark", "delta_spark"))]
    assert sorted(line.partition("=")[0] for line in spark) == ["delta-spark", "pyspark"]
    assert all("extra == 'spark'" in line.replace('"', "'") for line in spark)


def test_data_files_are_in_the_wheel(names: set[str]) -> None:
    data = [
        path
        for folder in ("sql", "jvm", "plugin", "broker", "jobs")
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
    ]
    expected = {path.relative_to(ROOT).as_posix() for path in data if path.suffix not in (".py", ".pyc")}
    assert {
        "jobs/web/static/index.html",
        "jvm/ivy.xml",
        "jvm/jars.sha256",
        "sql/views/top_offenders.sql",
        "plugin/pidquota/Reporter.java",
    } <= expected
    assert expected <= names


def test_make_builds_the_wheel_without_the_developers_packages(tmp_path: Path) -> None:
    recipe = run("make", "--dry-run", "wheel", f"VENV={tmp_path}", f"JARS={tmp_path}", cwd=ROOT)
    assert set(re.findall(r"requirements/\w+\.txt", recipe)) == {"requirements/spark.txt"}


def test_a_host_without_java_writes_the_jar_for_brokers(fresh: Path, jar: Path, tmp_path: Path) -> None:
    command: list[str | Path] = [fresh / "venv" / "bin" / "pid-quota", "broker-jar", tmp_path / "libs"]
    nowhere = {"JAVA_HOME": str(tmp_path / "nowhere"), "PID_QUOTA_JARS": str(tmp_path / "none"), "PATH": ""}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | nowhere

    told = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)

    assert [file.name for file in (tmp_path / "libs").iterdir()] == [JAR_NAME]
    assert (tmp_path / "libs" / JAR_NAME).read_bytes() == jar.read_bytes()
    assert f"metric.reporters=org.apache.kafka.common.metrics.JmxReporter,{REPORTER_CLASS}\n" in told.stdout


def test_nothing_but_our_packages_is_in_the_wheel(names: set[str]) -> None:
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == FOLDERS


def test_the_version_is_that_of_the_wheel(fresh: Path, wheel: Path) -> None:
    out = run(fresh / "venv" / "bin" / "pid-quota", "--version", cwd=fresh)
    assert out == f"pid-quota {metadata(wheel)['Version']}\n"


def test_the_command_sql_works_there_with_its_views(fresh: Path, tmp_path: Path) -> None:
    create_missing(str(tmp_path))
    query = ("sql", "--tables", tmp_path, "--json", "SELECT count(*) AS n FROM top_offenders")
    assert run(fresh / "venv" / "bin" / "pid-quota", *query, cwd=fresh) == '[\n  {\n    "n": 0\n  }\n]\n'

"""What the files around the code say of Python and the wheel, and programs that are no command of `pid-quota`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.unit.test_docs import PAGES, SOURCES

ROOT = Path(__file__).parents[2]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
CLAIMED = re.findall(r"Python :: (3\.\d+)\"", PROJECT)


def test_the_oldest_python_is_one_statement() -> None:
    assert f'requires-python = ">={CLAIMED[0]}"' in PROJECT
    assert f'[tool.mypy]\npython_version = "{CLAIMED[0]}"' in PROJECT
    assert f'target-version = "py{CLAIMED[0].replace(".", "")}"' in PROJECT
    assert f"need Python ≥ {CLAIMED[0]}," in (ROOT / "README.md").read_text(encoding="utf-8")


def test_ci_runs_the_oldest_and_the_newest_python_that_are_claimed() -> None:
    job = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]["test"]
    assert job["strategy"]["matrix"]["python"] == [CLAIMED[0], CLAIMED[-1]]
    assert job["container"]["image"] == "python:${{ matrix.python }}-bookworm"


def test_no_hint_installs_from_an_index_where_our_name_may_be_another_s() -> None:
    from_an_index = re.compile(r"pip install [-\w ]*['\"]?pid[-_]quota(?!-)")
    assert not [file for file in (*PAGES, *SOURCES) if from_an_index.search(file.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("module", ["jvm", "jvm.broker_jar", "jobs", "jobs.stream", "tables.schema.views"])
def test_help_of_a_module_is_help_and_does_nothing(module: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", module, "--help"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.lower().lstrip().startswith("usage:")
    assert not list(tmp_path.iterdir())

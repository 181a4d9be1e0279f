"""Shared fixtures: the runtime's own Spark, which takes a minute or more to install, and the console in Chromium."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kits import browser_kit
from tests.kits.browser_kit import Browser
from tests.kits.console_kit import demo_tables
from tests.kits.runtime_venv_kit import Cluster, cluster

WISHED = Path(wish).resolve() if (wish := os.environ.get("PID_QUOTA_SCREENSHOTS")) else None


@pytest.fixture(scope="session")
def runtime_cluster(jars: Path) -> Cluster:
    return cluster(jars / "runtime-17.3")


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("pictures")
    yield folder
    # Only those that a page of the docs shows.
    for shown in WISHED.glob("console-*.png") if WISHED else ():
        if (folder / shown.name).exists():
            shutil.copy(folder / shown.name, shown)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser_kit.chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        # The page names the folder: a short name in the pictures.
        patch.chdir(tmp_path_factory.mktemp("demo"))
        yield demo_tables("./tables")

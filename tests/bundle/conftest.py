"""What tests share: the runtime's own Spark, since it costs a minute or more to make, and pictures of the console."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

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

"""What the tests on the runtime's own Spark share, since it costs a minute or more to make."""

from pathlib import Path

import pytest

from tests.bundle.runtime_venv_kit import Cluster, cluster


@pytest.fixture(scope="session")
def runtime_cluster(jars: Path) -> Cluster:
    return cluster(jars / "runtime-17.3")

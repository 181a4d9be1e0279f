"""The stream on the Spark of the cluster's runtime, which is older than ours, with the runtime's libraries."""

from pathlib import Path

import pytest

from broker.local.local_broker import LocalBroker
from tests.kits.databricks_kit import SPARK_OF_RUNTIME, load_bundle
from tests.kits.runtime_kit import Runtime, assert_said, run_stream
from tests.kits.runtime_venv_kit import Cluster

PYSPARK = "4.0.1"


def test_the_version_tried_here_is_that_of_the_cluster_s_runtime() -> None:
    version = load_bundle("prod").config["variables"]["stream_cluster"]["spark_version"]
    assert PYSPARK.startswith(f"{SPARK_OF_RUNTIME[version.partition('.x')[0]]}.")


@pytest.mark.slow
def test_the_stream_runs_on_the_spark_of_the_cluster_s_runtime(
    runtime_cluster: Cluster, broker: LocalBroker, tmp_path: Path
) -> None:
    runtime = Runtime(tmp_path / "runtime", runtime_cluster.jars, runtime_cluster.python, packages=()).prepared()

    said = run_stream(runtime, broker, tmp_path)

    assert said["spark"] == PYSPARK
    assert said["session"] == "pyspark.sql.session"
    assert_said(said)

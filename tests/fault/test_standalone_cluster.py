"""The job on a real Spark cluster of two workers on this machine, whose Python has the wheel installed."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.kits import tuned_stream
from tests.kits.broker_kit import LIMIT_S, wait_until
from tests.kits.fault_kit import Stream, committed
from tests.kits.process_kit import in_group
from tests.kits.wheel_kit import build_wheel, venv_with_dependencies

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
DEPLOY = "org.apache.spark.deploy"

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Cluster:
    """A master, and its workers as processes; each is a process group with its executors."""

    master: str
    workers: list[subprocess.Popen[bytes]]
    python: Path

    def kill_worker(self, number: int) -> None:
        os.killpg(self.workers[number].pid, signal.SIGKILL)


def spark_process(log: Path, *arguments: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
    return in_group([str(SPARK_CLASS), *arguments], log, environment)


def said(log: Path, pattern: str) -> Callable[[], bool]:
    return lambda: re.search(pattern, log.read_text(errors="replace")) is not None


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of the workers."""
    folder = tmp_path_factory.mktemp("shipped")
    python = venv_with_dependencies(folder / "venv")
    (site_packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    with ZipFile(build_wheel(folder)) as wheel:
        wheel.extractall(site_packages)
    return python


@pytest.fixture
def cluster(python: Path, tmp_path: Path) -> Iterator[Cluster]:
    logs = [tmp_path / f"{name}.log" for name in ("master", "worker-1", "worker-2")]
    at_loopback = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    with ExitStack() as stack:
        master = stack.enter_context(spark_process(logs[0], f"{DEPLOY}.master.Master", *at_loopback))
        wait_until(said(logs[0], r"Starting Spark master at (spark://\S+)"), "a master", master)
        found = re.search(r"Starting Spark master at (spark://\S+)", logs[0].read_text())
        assert found
        workers = [
            stack.enter_context(
                spark_process(
                    log,
                    f"{DEPLOY}.worker.Worker",
                    *at_loopback,
                    *("--cores", "1", "--memory", "2g", "--work-dir", str(tmp_path / "work"), found[1]),
                )
            )
            for log in logs[1:]
        ]
        for log in logs[1:]:
            wait_until(said(log, "Successfully registered with master"), "a registered worker")
        yield Cluster(found[1], workers, python)


def job(cluster: Cluster, stream: Stream) -> list[str]:
    places = ["--tables", stream.tables, "--checkpoint", str(stream.checkpoint)]
    rules = ["--max-offsets-per-trigger", str(stream.batch)]
    tuned = tuned_stream.arguments({"topic": stream.topic, "metrics_interval_seconds": 10})
    where = ["--master", cluster.master, "--trigger", "available-now"]
    return [sys.executable, *tuned, "--bootstrap-server", stream.servers, *places, *rules, *where]


def test_the_job_runs_on_a_cluster_and_a_worker_killed_in_mid_batch_costs_nothing(
    spark: SparkSession, cluster: Cluster, stream: Stream, undisturbed: Stream, jars: Path, tmp_path: Path
) -> None:
    log = tmp_path / "job.log"
    places = {"PYSPARK_PYTHON": str(cluster.python), "SPARK_LOCAL_IP": "127.0.0.1", "PID_QUOTA_JARS": str(jars)}
    with in_group(job(cluster, stream), log, {**os.environ, **places}, tmp_path) as process:
        begun = stream.checkpoint / "offsets" / "1"
        wait_until(lambda: committed(stream) == 1 and begun.exists(), "the second batch under way", process)
        cluster.kill_worker(0)
        assert process.wait(LIMIT_S) == 0, log.read_text(errors="replace")[-3000:]

    assert re.search(r"Lost executor|worker lost|Worker shutting down", log.read_text(errors="replace"))
    stream.assert_equal(spark, undisturbed)

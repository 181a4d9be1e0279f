"""The stream over Spark Connect, which the standard access mode of Databricks is: the same task, against a server.

The server is Spark 4.2's, on this machine. docs/databricks.md says what this can't show.
"""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from broker.local.local_broker import LocalBroker
from jvm.jar_sets import spark_jars
from jvm.process import start_watched
from tests.kits.runtime_kit import LIMIT_S, Runtime, assert_said, run_stream


@contextmanager
def connect_server(runtime: Runtime) -> Iterator[str]:
    """Run Spark's own server with the settings of a runtime; gives its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    address = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": port}
    command = [str(submit), *(part for name, value in address.items() for part in ("--conf", f"{name}={value}"))]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--name", "server"]
    log = runtime.root / "server.log"
    settings = runtime.environment()
    launcher = [
        "/usr/bin/env",
        *(f"{name}={settings[name]}" for name in settings if settings[name] != os.environ.get(name)),
    ]
    process = start_watched([*launcher, *command, "spark-internal"], log)
    try:
        give_up_at = time.monotonic() + LIMIT_S
        while not answers(port):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < give_up_at, log.read_text()
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"
    finally:
        assert process.stdin
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
def test_the_stream_runs_over_spark_connect(jars: Path, broker: LocalBroker, tmp_path: Path) -> None:
    runtime = Runtime(tmp_path / "runtime", tuple(spark_jars(jars))).prepared()

    with connect_server(runtime) as address:
        said = run_stream(runtime, broker, tmp_path, SPARK_REMOTE=address)

    assert said["session"] == "pyspark.sql.connect.session"
    assert_said(said)

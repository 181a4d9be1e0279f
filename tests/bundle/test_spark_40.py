"""The stream on the Spark of the cluster's runtime, which is older than ours: in a virtual environment of its own.

The first run fetches pyspark 4.0 (434 MB) and two jars, into the folder of the jars; later ones are offline.
"""

import fcntl
import json
import sys
import sysconfig
from pathlib import Path

import pytest
from databricks_kit import ROOT, SPARK_OF_RUNTIME, load_bundle
from runtime_kit import Runtime
from runtime_stream_kit import assert_said, new_topic, prepared_statements

from broker.java import find_java
from broker.process import run_to_end

PYSPARK = "4.0.1"
IVY_FILE = Path(__file__).parent / "spark_4_0" / "ivy.xml"
FETCH_LIMIT_S = 1800


def test_the_version_tried_here_is_that_of_the_cluster_s_runtime():
    version = load_bundle("prod").config["variables"]["stream_cluster"]["spark_version"]
    assert PYSPARK.startswith(f"{SPARK_OF_RUNTIME[version.partition('.x')[0]]}.")


@pytest.fixture(scope="module")
def older(jars):
    """Python with the older pyspark, and its jars."""
    folder = jars / "spark-4.0"
    folder.mkdir(exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".complete").exists():
            make(folder)
            (folder / ".complete").touch()
    return folder / "venv" / "bin" / "python", tuple(str(jar) for jar in sorted((folder / "jars").glob("*.jar")))


def make(folder):
    run(sys.executable, "-m", "venv", "--clear", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--disable-pip-version-check", f"pyspark=={PYSPARK}")
    # What else we need comes from our own environment, behind this one: its pyspark is the second on the path.
    (site_packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    (ivy,) = (site_packages / "pyspark" / "jars").glob("ivy-*.jar")
    run(
        *(find_java(), "-jar", ivy, "-ivy", IVY_FILE, "-cache", folder / ".ivy", "-confs", "spark"),
        *("-retrieve", f"{folder}/jars/[artifact]-[revision].[ext]", "-types", "jar", "bundle"),
    )


def run(*command):
    code, output = run_to_end([*map(str, command)], FETCH_LIMIT_S)
    assert code == 0, output


@pytest.mark.slow
def test_the_stream_runs_on_the_spark_of_the_cluster_s_runtime(older, broker, tmp_path):
    python, jars = older
    runtime = Runtime(tmp_path / "runtime", jars, str(python)).prepared()
    topic = new_topic(broker)
    script = ROOT / "tests" / "bundle" / "runtime_run.py"
    arguments = (broker.admin_servers, topic, str(tmp_path / "checkpoint"), prepared_statements(tmp_path))

    said = json.loads(runtime.run(script, *arguments).splitlines()[-1])

    assert said["spark"] == PYSPARK
    assert said["session"] == "pyspark.sql.session"
    assert_said(said)

"""The stream on a host with another Spark and Hadoop, whose variables its shell sets."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker.local.local_broker import LocalBroker
from tables.store.open import open_store
from tests.kits.fault_kit import topic_of
from tests.kits.stream_command_kit import StreamCommand

HDFS = """<configuration>
  <property><name>fs.defaultFS</name><value>hdfs://nowhere.invalid:8020</value></property>
</configuration>"""


def test_variables_of_another_installation_change_nothing_and_are_named(
    broker: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = StreamCommand.on(broker, topic_of(broker, 100), tmp_path)
    # given the variables that an administrator sets for another Spark, with Hadoop's paths in HDFS
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/core-site.xml").write_text(HDFS, encoding="utf-8")
    variables = {
        "SPARK_HOME": "/opt/other-spark",
        "HADOOP_CONF_DIR": str(tmp_path / "conf"),
        "PYSPARK_PYTHON": "/bin/false",
        "PYSPARK_SUBMIT_ARGS": "--master yarn --conf spark.ssl.keyPassword=swordfish",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    code, said = stream.run()

    # then it reads the topic into local tables, with a local checkpoint
    assert code == 0, said
    (named,) = [line for line in said if "another Spark installation" in line]
    assert all(name in named for name in variables)
    assert "swordfish" not in "\n".join(said)
    assert stream.batches() > 0
    with open_store(str(stream.tables)) as store:
        assert store.read("producer_id_metrics")


def test_another_pyspark_in_the_path_is_named_before_anything_is_written(tmp_path: Path) -> None:
    other = tmp_path / "spark" / "python"
    (other / "pyspark").mkdir(parents=True)
    (other / "pyspark/__init__.py").write_text("__version__ = '3.5.0'\n", encoding="utf-8")
    places = ["--tables", str(tmp_path / "tables"), "--checkpoint", str(tmp_path / "checkpoint")]
    command = [sys.executable, "-m", "jobs", "stream", "--bootstrap-server", "127.0.0.1:9", *places]
    environment = os.environ | {"PYTHONPATH": f"{other}:{os.environ.get('PYTHONPATH', '')}"}

    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert f"pyspark comes from {other}/pyspark" in line
    assert "unset PYTHONPATH" in line
    assert [each.name for each in tmp_path.iterdir()] == ["spark"]

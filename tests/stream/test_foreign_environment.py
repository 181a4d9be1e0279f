"""The stream on a host with another Spark and Hadoop, whose variables its shell sets."""

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


def test_another_pyspark_in_the_path_is_named_before_anything_is_written(
    broker: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = StreamCommand.on(broker, topic_of(broker, 1), tmp_path)
    other = tmp_path / "spark" / "python"
    (other / "pyspark").mkdir(parents=True)
    (other / "pyspark/__init__.py").write_text("__version__ = '3.5.0'\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(other), prepend=":")

    code, said = stream.run()

    assert code == 2
    (line,) = said
    assert f"pyspark comes from {other}/pyspark" in line
    assert "unset PYTHONPATH" in line
    assert not stream.tables.exists()

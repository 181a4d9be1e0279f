"""What differs in a Databricks runtime. `dbutils` here is a stand-in, since only that runtime has the real one."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from pyspark.errors import AnalysisException

from broker.errors import KafkaConfigError
from broker.kafka.config import KafkaConfig
from jobs.kafka_login import kafka_login
from jobs.stream.command import require_spark
from streaming import session
from streaming.databricks import in_databricks, jaas_prefix, secret_lines
from streaming.errors import SecretError, SessionError

SECRET = {("pid-quota", "kafka-client"): "security.protocol=SASL_SSL\nsasl.mechanisms=PLAIN\nsasl.username=spark\n"}


class SecretMissingError(Exception):
    """As the runtime raises it."""


def read_secret(scope: str, key: str) -> str:
    if (scope, key) not in SECRET:
        msg = f"Secret does not exist with scope: {scope} and key: {key}\n\tat com.databricks..."
        raise SecretMissingError(msg)
    return SECRET[scope, key]


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that takes itself for one of a Databricks runtime."""
    module = ModuleType("databricks.sdk.runtime")
    vars(module)["dbutils"] = SimpleNamespace(secrets=SimpleNamespace(get=read_secret))
    monkeypatch.setitem(sys.modules, "databricks.sdk", ModuleType("databricks.sdk"))
    monkeypatch.setitem(sys.modules, "databricks.sdk.runtime", module)
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)


def test_in_the_runtime_the_login_module_is_the_shaded_one(runtime: None) -> None:
    assert in_databricks()
    kafka = KafkaConfig({"sasl.mechanisms": "PLAIN", "sasl.username": "spark", "sasl.password": "hunter2"})
    jaas = kafka.spark_options(jaas_prefix())["kafka.sasl.jaas.config"]
    assert jaas.startswith("kafkashaded.org.apache.kafka.common.security.plain.PlainLoginModule required ")


def test_a_secret_is_read_as_lines(runtime: None) -> None:
    assert secret_lines("pid-quota/kafka-client") == [
        "security.protocol=SASL_SSL",
        "sasl.mechanisms=PLAIN",
        "sasl.username=spark",
    ]


def test_a_secret_that_is_not_there_is_said_with_its_name_and_the_first_line_of_the_reason(runtime: None) -> None:
    with pytest.raises(SecretError) as raised:
        secret_lines("pid-quota/other")
    assert "pid-quota/other" in str(raised.value)
    assert "does not exist" in str(raised.value)
    assert "com.databricks" not in str(raised.value)


@pytest.mark.parametrize("name", ["", "kafka-client", "/kafka-client", "pid-quota/"])
def test_a_secret_without_scope_or_key_is_refused(runtime: None, name: str) -> None:
    with pytest.raises(SecretError, match="scope/key"):
        secret_lines(name)


def test_elsewhere_there_are_no_secrets(elsewhere: None) -> None:
    with pytest.raises(SecretError, match="--command-config"):
        secret_lines("pid-quota/kafka-client")


def test_the_settings_of_the_stream_come_out_of_the_secret(runtime: None) -> None:
    kafka = kafka_login("kafka:9093", Path("secret:pid-quota/kafka-client"))
    assert kafka.client() == {
        "bootstrap.servers": "kafka:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "spark",
    }


def test_a_bad_line_of_a_secret_is_named_and_not_shown(runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SECRET, ("pid-quota", "broken"), "sasl.username=spark\nhunter2")
    with pytest.raises(KafkaConfigError, match="secret pid-quota/broken, line 2") as raised:
        kafka_login("kafka:9093", Path("secret:pid-quota/broken"))
    assert "hunter2" not in str(raised.value)


class Session:
    """A runtime's session, with its default state store provider."""

    def __init__(self, provider: str) -> None:
        self.settings = {"spark.sql.streaming.stateStore.providerClass": provider}

    @property
    def conf(self) -> "Session":
        return self

    def get(self, name: str, default: str) -> str:
        return self.settings.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value


class Refusing(Session):
    """A session as serverless gives it: it takes few settings."""

    def __init__(self) -> None:
        super().__init__("")

    def set(self, name: str, value: str) -> None:
        msg = f"[CONFIG_NOT_AVAILABLE] Configuration {name} is not available. SQLSTATE: 42K0I"
        raise AnalysisException(msg)


def use_session(monkeypatch: pytest.MonkeyPatch, of_runtime: Session) -> None:
    named = SimpleNamespace(getOrCreate=lambda: of_runtime)
    builder = SimpleNamespace(appName=lambda name: named)
    monkeypatch.setattr(session, "SparkSession", SimpleNamespace(builder=builder))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # A checkpoint freezes the provider: one of the runtime's own stays (the default since 17.3).
        ("com.databricks.sql.streaming.state.RocksDBStateStoreProvider",) * 2,
        (
            "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        ),
    ],
)
def test_a_runtime_whose_state_store_is_rocksdb_keeps_it(
    runtime: None, monkeypatch: pytest.MonkeyPatch, before: str, after: str
) -> None:
    use_session(monkeypatch, of_runtime := Session(before))

    session.stream_session([])

    assert of_runtime.settings["spark.sql.streaming.stateStore.providerClass"] == after
    changelog = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
    assert (changelog in of_runtime.settings) == (before != after)
    assert of_runtime.settings["spark.sql.streaming.minBatchesToRetain"] == "20"


def test_a_session_that_does_not_take_a_setting_is_said(runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    use_session(monkeypatch, Refusing())
    with pytest.raises(SessionError, match=r"CONFIG_NOT_AVAILABLE.*classic cluster"):
        session.stream_session([])


def test_the_runtime_needs_no_java_of_ours(runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    require_spark()

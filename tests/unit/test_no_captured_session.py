"""The standard access mode of Databricks is Spark Connect: no JVM in reach, and functions travel without a session."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from broker.kafka.offsets import ExtentReader
from quota.config import QuotaConfig
from state.events import Deployment
from streaming.batch.tasks import TaskBatch
from streaming.commit.commit import Commit
from streaming.commit.sinks import DeltaSink
from streaming.pipeline import StreamOptions, loss_detector

ROOT = Path(__file__).parents[2]
MODULES = [
    path
    for folder in ("wire", "quota", "lifecycle", "state", "tables", "broker", "streaming", "jobs")
    for path in (ROOT / folder).rglob("*.py")
]
NOT_IN_CONNECT = {
    "sparkContext",
    "_jvm",
    "_jsparkSession",
    "_jdf",
    "_jsc",
    "_jc",
    "_sc",
    "rdd",
    "toJSON",
    "SparkContext",
}
ASKED_BESIDE_A_JVM = {
    "streaming/listener.py": ["pyspark.SparkContext"],
    "streaming/session.py": ["pyspark.SparkContext", "pyspark.java_gateway", "pyspark.java_gateway.launch_gateway"],
    "jobs/stream/stream_pulse.py": ["sparkContext"],
}
"""Only for a session with a JVM."""
NOT_IMPORTED = ("py4j", "pyspark.rdd", "pyspark.context", "pyspark.conf", "pyspark.java_gateway")


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def out_of_reach(code: ast.AST) -> Iterator[str]:
    """Attributes and modules that only a session with a JVM beside it has."""
    for node in ast.walk(code):
        if isinstance(node, ast.Attribute) and node.attr in NOT_IN_CONNECT:
            yield node.attr
        modules = []
        if isinstance(node, ast.ImportFrom):
            modules = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        yield from (module for module in modules if module.startswith(NOT_IMPORTED) or module == "pyspark.SparkContext")


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_no_code_needs_a_jvm_beside_the_session(path: Path) -> None:
    assert list(out_of_reach(tree(path))) == ASKED_BESIDE_A_JVM.get(name(path), [])


def travelled(function: object) -> Any:
    dumps: Callable[[object], bytes] = cloudpickle.dumps
    return cloudpickle.loads(dumps(function))


def test_the_functions_of_the_stream_can_be_sent_and_still_be_the_same() -> None:
    options = StreamOptions(
        topic="produce-events",
        kafka_options={"kafka.bootstrap.servers": "127.0.0.1:9"},
        tables="main.pid_quota",
        checkpoint="/Volumes/main/pid_quota/checkpoints/stream",
        extent=ExtentReader({"bootstrap.servers": "127.0.0.1:9"}, "produce-events"),
    )
    sink = DeltaSink(options.tables, "stream")
    commit = Commit(sink, "stream", options.checkpoint, options.tables, loss_detector(options, "earliest"))
    for function in (
        Commit(sink, "stream", options.checkpoint, options.tables),
        TaskBatch(options.checkpoint),
        Deployment(QuotaConfig(), salt=7),
    ):
        assert travelled(function) == function
    sent = travelled(commit)
    assert sent.watch.topic == "produce-events"

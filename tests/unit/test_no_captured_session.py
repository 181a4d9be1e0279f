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
TAKE_FUNCTIONS = {"foreachBatch", "foreach", "mapInArrow", "mapInPandas", "applyInPandas", "applyInPandasWithState"}
OF_A_SESSION = {"SparkSession", "DataFrame", "StreamingQuery", "DataStreamReader"}
ANSWERS_ON_THE_DRIVER = {"SparkEngine"}
"""Holds a session and is given to no function that travels."""


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def types_held(annotation: ast.AST) -> set[str]:
    """Names in an annotation, but for those that a function takes or returns."""
    functions = [each for each in ast.walk(annotation) if isinstance(each, ast.Subscript) and "Callable" in names(each)]
    return names(annotation) - {name for each in functions for name in names(each)}


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


def captured(code: ast.AST) -> Iterator[str]:
    """Classes with a field of a session's type, and functions that travel and are no plain names of a module."""
    for node in ast.walk(code):
        if isinstance(node, ast.ClassDef) and node.name not in ANSWERS_ON_THE_DRIVER:
            fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
            yield from (
                f"{node.name}.{ast.unparse(each.target)}"
                for each in fields
                if types_held(each.annotation) & OF_A_SESSION
            )
        if isinstance(node, ast.FunctionDef):
            inner = {each.name for each in ast.walk(node) if isinstance(each, ast.FunctionDef) and each is not node}
            for call in ast.walk(node):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                    takes = call.func.attr in TAKE_FUNCTIONS
                    travels = [each for each in call.args if takes]
                    yield from (
                        ast.unparse(each)
                        for each in travels
                        if isinstance(each, ast.Lambda) or names(each) & (inner | {"spark", "session"})
                    )


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_no_code_needs_a_jvm_beside_the_session(path: Path) -> None:
    assert list(out_of_reach(tree(path))) == ASKED_BESIDE_A_JVM.get(name(path), [])


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_no_function_that_travels_takes_a_session_along(path: Path) -> None:
    assert list(captured(tree(path))) == []


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

"""What costs seconds to get and is shared by a whole run: the jars, one real broker and one Spark session."""

import os
import re
import signal
import uuid
from collections.abc import Generator, Iterator
from itertools import zip_longest
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from pyspark.sql import SparkSession
from typing_extensions import override
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from broker.local.local_broker import LocalBroker
from broker.local.server_process import Jvm, ServerProcess
from jvm.jar_sets import ensure_jars, jars_folder, spark_jars
from jvm.java import QUICK_JVM, quick_options
from streaming.session import stream_session
from tests.kits.process_kit import MARK, left_of

# A property says nothing about how fast it is checked: on a busy machine a time limit fails what holds.
settings.register_profile("pid-quota", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("pid-quota")

# Of the CPU of a run, most went into compiling JVMs that live for seconds.
os.environ.setdefault(QUICK_JVM, "1")

# A shell starts what it puts into the background with SIGINT ignored, and so would be what tests end by Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

WAITING = ("tests/attack/", "tests/broker/", "tests/run/")
ON_SPARK = (
    "tests/fault/",
    "tests/stream/",
    *(f"tests/bundle/test_{name}.py" for name in ("dashboard", "metric_views", "table_catalog_on_spark")),
    *(f"tests/bundle/test_{name}.py" for name in ("table_migration", "tables_on_spark")),
)

STRICT = "PID_QUOTA_NO_SKIPS"
"""Set where everything that the tests drive is installed: a test that skips fails."""
MAY_SKIP = ("needs the command line and a workspace", "a file system can't be mounted here", "too much else runs here")
"""What no package brings: a workspace, the right to mount, and a machine that is not shared."""

collect_ignore_glob = ["conftest.py", "*/conftest.py", "bundle/app_stand_in/*", "kits/late_files.py"]
"""No doctests: fixtures, of which several have one name, and what a process of a test loads at its start. One of these
needs libfuse."""


class Sharing(LoadScopeScheduling):
    """A worker gets a file at a time, but one of them all that share the Spark session, which costs most to warm up."""

    @override
    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith(ON_SPARK) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Sharing:
    """Say what the workers of a run share."""
    return Sharing(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what is longest, then let files that wait (for brokers, holds) take turns with files that compute."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    waiting = [group for name, group in files.items() if name.startswith(WAITING)]
    computing = [group for name, group in files.items() if not name.startswith((*WAITING, *ON_SPARK))]
    nothing: list[pytest.Item] = []
    pairs = zip_longest(waiting, computing, fillvalue=nothing)
    first = [item for item in items if item.nodeid.startswith(ON_SPARK)]
    items[:] = [*first, *(item for pair in pairs for group in pair for item in group)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail what is skipped where nothing may be missing."""
    report = yield
    if report.skipped and os.environ.get(STRICT) and not any(each in str(report.longrepr) for each in MAY_SKIP):
        report.outcome, report.longrepr = "failed", f"{STRICT} is set, but: {report.longrepr}"
    return report


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Fail the run, or a worker's part of it, if a process that it started is still there at its end."""
    mark = os.environ[MARK] = uuid.uuid4().hex
    yield
    assert left_of(mark) == []


@pytest.fixture(scope="session")
def jars() -> Path:
    """Folder of the JVM parts; fetched on the first run, offline afterwards."""
    folder = jars_folder()
    ensure_jars(folder)
    return folder


@pytest.fixture(scope="session", autouse=True)
def formatted_once() -> Iterator[None]:
    """Run Kafka's format tool once for each class path and node id, and copy its result: each run starts a JVM."""
    by_tool = ServerProcess.format
    formatted: dict[tuple[str, str], tuple[str, bytes]] = {}

    def format_or_copy(server: ServerProcess, jvm: Jvm, cluster_id: str) -> None:
        meta, checkpoint = (server.folder / "data" / name for name in ("meta.properties", "bootstrap.checkpoint"))
        key = jvm.classpath, *re.findall(r"^node\.id=\d+$", server.properties.read_text("utf-8"), re.MULTILINE)
        if meta.exists() or key not in formatted:
            by_tool(server, jvm, cluster_id)
            formatted[key] = meta.read_text("ascii"), checkpoint.read_bytes()
            return
        text, content = formatted[key]
        meta.parent.mkdir(exist_ok=True)
        checkpoint.write_bytes(content)
        meta.write_text(re.sub(r"(?<=cluster\.id=).*", cluster_id, text), "ascii")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServerProcess, "format", format_or_copy)
        yield


@pytest.fixture(scope="session")
def broker(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A real Kafka broker with the plugin, and the users alice, mallory and admin; use topics of your own."""
    with LocalBroker(tmp_path_factory.mktemp("kafka"), jars=jars) as running:
        running.wait_for_plugin()
        yield running


@pytest.fixture(scope="session")
def spark(jars: Path) -> Iterator[SparkSession]:
    """The session of the stream; a test that changes it changes it back."""
    # Its JVM is not marked: a pipe ends it with this process, hence after the last look for what is left.
    with pytest.MonkeyPatch.context() as starting:
        starting.delenv(MARK)
        session = stream_session(spark_jars(jars), "local[2]", java_options=quick_options())
    yield session
    session.stop()

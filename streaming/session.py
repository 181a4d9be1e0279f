"""Makes the stream's Spark session, with the settings of the benchmarks."""

import atexit
import logging
import os
import pwd
import re
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from socketserver import BaseServer
from typing import Any

from pyspark import SparkConf, SparkContext, accumulators
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from streaming.environment import set_foreign_aside
from streaming.errors import SessionError
from tables.errors import first_line

logger = logging.getLogger(__name__)

_PARTITIONS = "spark.sql.shuffle.partitions"
"""Name of the setting with the number of state partitions. A checkpoint fixes this number."""
_COLLECTOR = "-XX:+UseSerialGC"
"""On a few cores, one thread collects the garbage of a batch at least as fast as several, which wake each other."""
_COMPILER = "-XX:TieredStopAtLevel=1"
"""Compile once, quickly. The JVM works for milliseconds per batch. Before the optimizing compiler began, it would run
for minutes in slow code that counts calls."""
_JAVA_OPTIONS = f"{_COLLECTOR} {_COMPILER}"
_MALLOC_ARENAS = "2"
"""Maximum number of glibc's memory arenas. The JVM's hundreds of threads would fill the default of eight per core."""
_NAME = "pid-quota"
"""Name of the application, and of a user without a name."""
DEFAULT_MASTER = "local[*]"
"""One task at a time for each processor that the process may use."""
_MAX_SOCKET_FOLDER = 60
"""Maximum length of a folder of sockets. Linux allows 107 bytes for a socket's path, and Spark's names have 43."""
_MIN_PARTITIONS, _MAX_PARTITIONS = 2, 8
"""Limits of the number of state partitions, which is otherwise the number of cores. An idle partition costs about 70 ms
of CPU per batch. The maximum lets a small host run a large host's checkpoint. The minimum lets the checkpoint of a host
with one core use a second core later."""

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
STATE_STORE_SETTINGS = {
    _PROVIDER: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Settings of the state store. A checkpoint fixes the store. `stream_session` keeps a runtime's own RocksDB store."""

STREAM_SETTINGS = STATE_STORE_SETTINGS | {
    _PARTITIONS: "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.minBatchesToRetain": "20",
    # By default, Spark also runs batches without records.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # An append takes 6-8 s with the default of 50, and about 1.3 s with 1.
    "spark.databricks.delta.snapshotPartitions": "1",
    # With the trigger `asap`, Spark waits this long between requests for records.
    "spark.sql.streaming.pollingDelay": "50ms",
    # The Python worker buffers this many output rows.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
}

LOCAL_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # No streaming query uses adaptive execution. If it is enabled, Spark logs a warning for each query.
    "spark.sql.adaptive.enabled": "false",
    # Java makes and compiles code for each batch. For a few rows, that costs more than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.driver.defaultJavaOptions": _JAVA_OPTIONS,
    "spark.executor.defaultJavaOptions": _JAVA_OPTIONS,
    # Spark has two managers of checkpoint files, which write and rename in the same way. For local files, the default
    # starts `readlink` and `chmod` processes, about sixty per batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.warehouse.dir": "/nonexistent/pid-quota-uses-no-warehouse",
    # Paths without a scheme are local for our own files, so they must be for Spark's, whatever Hadoop's settings say.
    "spark.hadoop.fs.defaultFS": "file:///",
    "spark.log.level": "WARN",
}


def stream_session(
    jars: Sequence[str],
    master: str = DEFAULT_MASTER,
    *,
    debug: bool = False,
    java_options: Sequence[str] = (),
) -> SparkSession:
    """Return a session for the stream.

    Args:
        jars: Jars of the Kafka source and Delta for a new session. If empty, use the runtime's session and jars.
        master: Spark master of a new session.
        debug: Whether the JVM prints stack traces.
        java_options: Further options of a new JVM.

    Raises:
        SessionError: If the runtime's session rejects a setting.
    """
    builder = SparkSession.builder.appName(_NAME)
    if jars:
        if ignored := set_foreign_aside(os.environ, is_one_process=_is_one_process(master)):
            logger.warning("ignores the environment of another Spark installation: %s", ", ".join(ignored))
        # Workers must run the same Python with the same packages as the driver.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("MALLOC_ARENA_MAX", _MALLOC_ARENAS)
        settings = LOCAL_SETTINGS | STREAM_SETTINGS | {"spark.master": master}
        settings |= one_process_settings(jars) if _is_one_process(master) else {"spark.jars": ",".join(jars)}
        # Without a folder of its own, Java uses /tmp, whatever TMPDIR says.
        own = [f'"-Djava.io.tmpdir={tempfile.gettempdir()}"', *([] if debug else [f'"{_log_settings()}"'])]
        settings["spark.driver.defaultJavaOptions"] = " ".join((_JAVA_OPTIONS, *java_options, *own))
        if not debug:
            silence_the_jvms_end()
        _start_jvm(settings)
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.conf.set(_PARTITIONS, _partitions(master, lambda: _cores(session)))
        return session
    session = builder.getOrCreate()
    has_rocksdb = "RocksDB" in str(session.conf.get(_PROVIDER, ""))
    for name, value in STREAM_SETTINGS.items():
        if has_rocksdb and name in STATE_STORE_SETTINGS:
            continue
        try:
            session.conf.set(name, value)
        except PySparkException as error:
            reason = first_line(error)
            msg = f"this Spark session does not accept {name}={value} ({reason}): the stream needs a classic cluster"
            raise SessionError(msg) from error
    return session


def _has_name() -> bool:
    """Return whether this user has a name, as Hadoop needs. A container's user may be a mere number."""
    try:
        return bool(pwd.getpwuid(os.getuid()).pw_name)
    except KeyError:
        return False


def _start_jvm(settings: Mapping[str, str]) -> None:
    """Start a JVM that ignores SIGTERM, and the Spark context that the session then uses.

    systemd sends SIGTERM to all processes of a service. Without this rule, the JVM stops Spark while this process
    still ends the queries, and Spark prints errors. The JVM ends when this process ends, because that closes the JVM's
    standard input.
    """
    own = {} if _has_name() else {"spark.driver.defaultJavaOptions": _without_name(settings)}
    conf = SparkConf().setAll([*settings.items(), *own.items()]).setAppName(_NAME)
    # The function has no types.
    launch: Callable[[SparkConf], Any] = launch_gateway
    with uninterrupted():
        gateway: Any = launch(conf)
    signals = gateway.jvm.sun.misc
    signals.Signal.handle(signals.Signal("TERM"), signals.SignalHandler.SIG_IGN)
    if own:
        users = gateway.jvm.org.apache.hadoop.security.UserGroupInformation
        users.setLoginUser(users.createRemoteUser(_NAME))
    handler = signal.getsignal(signal.SIGINT)
    SparkContext(conf=conf, gateway=gateway)
    if threading.current_thread() is threading.main_thread():
        # pyspark's handler asks the JVM to cancel jobs, by the connection on which an interrupted call still waits.
        signal.signal(signal.SIGINT, handler)


def _without_name(settings: Mapping[str, str]) -> str:
    """Return the JVM's options for a user without a name, who has no home. Hadoop's own login would fail."""
    return f'{settings["spark.driver.defaultJavaOptions"]} "-Duser.home={tempfile.gettempdir()}"'


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until the end of the `with` block.

    pyspark starts a JVM and waits for a file that the JVM writes. If pyspark is interrupted, it deletes the file's
    folder, and the JVM never ends.
    """
    held: list[int] = []

    def hold(number: int, _frame: object) -> None:
        held.append(number)

    # Python runs handlers in the main thread. A signal without a handler ends the process. The JVM's pipe then closes,
    # and the JVM ends, too.
    is_main = threading.current_thread() is threading.main_thread()
    numbers = [each for each in (signal.SIGINT, signal.SIGTERM) if is_main and callable(signal.getsignal(each))]
    before = {number: signal.signal(number, hold) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for each in held:
            signal.raise_signal(each)


def silence_the_jvms_end() -> None:
    """Keep Spark and py4j from printing stack traces when the JVM ends."""
    # The classes' names differ between Spark 4.0 and 4.2.
    members = vars(accumulators).values()
    servers: list[Any] = [each for each in members if isinstance(each, type) and issubclass(each, BaseServer)]
    for server in servers:
        server.handle_error = lambda *_: None
    # If the JVM does not answer, py4j logs to the root logger.
    logging.getLogger().addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


def _is_one_process(master: str) -> bool:
    """Return whether tasks run in the driver's process.

    Examples:
        >>> [_is_one_process(master) for master in ("local", "local[2]", "local-cluster[2,1,1024]", "spark://h:7077")]
        [True, True, False, False]
    """
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def one_process_settings(jars: Sequence[str]) -> dict[str, str]:
    """Return the settings for tasks in the driver's process."""
    return _socket_settings() | {
        "spark.python.daemon.module": "streaming.worker_daemon",
        # With `spark.jars`, Spark would copy each jar.
        "spark.driver.extraClassPath": os.pathsep.join(jars),
        # Hadoop's own class starts a `chmod` process for each file: eight per batch.
        "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    }


def _socket_settings() -> dict[str, str]:
    """Return the settings for Unix domain sockets between JVM and Python, in a folder that only this user may enter.

    Over TCP, each task waits 40 ms, because one side holds small segments back (Nagle) and the other its answers.
    """
    folder = tempfile.mkdtemp(prefix="pid-quota-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if len(folder) > _MAX_SOCKET_FOLDER:
        # By its descriptor, a deep folder has a short path, too.
        folder = f"/proc/{os.getpid()}/fd/{os.open(folder, os.O_RDONLY)}"
        if not Path(folder).exists():
            return {}
    sockets = "spark.python.unix.domain.socket"
    return {f"{sockets}.enabled": "true", f"{sockets}.dir": folder}


def _log_settings() -> str:
    return f"-Dlog4j2.configurationFile={resources.files('jvm').joinpath('log4j2-stream.properties')}"


def _cores(session: SparkSession) -> int:
    """Return how many tasks Spark runs at a time. Spark splits a range into as many parts."""
    (plan,) = session.sql("EXPLAIN SELECT * FROM range(1)").collect()
    splits = re.search(r"splits=(\d+)", plan[0])
    return int(splits[1]) if splits else _MIN_PARTITIONS


def _partitions(master: str, cores: Callable[[], int]) -> int:
    """Return the number of state partitions of a new checkpoint.

    Examples:
        >>> [_partitions("local[*]", lambda: cores) for cores in (1, 6, 64)], _partitions("local[1]", lambda: 1)
        ([2, 6, 8], 1)
        >>> _partitions("spark://127.0.0.1:7077", lambda: 2)
        4
    """
    if not _is_one_process(master):
        return int(STREAM_SETTINGS[_PARTITIONS])
    least = _MIN_PARTITIONS if master == DEFAULT_MASTER else 1
    return min(max(cores(), least), _MAX_PARTITIONS)

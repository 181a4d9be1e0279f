"""The Spark session, with the settings under which the stream was benchmarked."""

import atexit
import logging
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from socketserver import BaseServer
from typing import Any

from pyspark import accumulators
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streaming.errors import SessionError
from tables.errors import first_line

_PARTITIONS = "spark.sql.shuffle.partitions"
"""Also the number of state partitions, which a checkpoint freezes."""
_COLLECTOR = "-XX:+UseParallelGC -XX:GCTimeRatio=19"
"""Far faster than the default for short-lived objects on a few cores. The heap grows only if collections take more than
5 % of the time, instead of 1 %."""
_LOCAL_WORKER_SETTINGS = {"spark.python.daemon.module": "streaming.worker_daemon"}
_MALLOC_ARENAS = "2"
"""glibc's default is eight for each core, and the JVM has hundreds of threads."""
DEFAULT_MASTER = "local[*]"
"""As many tasks at a time as the JVM counts processors: those of this process's affinity and of its container."""
_MIN_PARTITIONS, _MAX_PARTITIONS = 2, 8
"""State partitions, where the cores decide: each costs some 70 ms of CPU per batch, even if idle, so a large host's
checkpoint stays bearable on a small one; a small host's can use a second core later."""

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
STATE_STORE_SETTINGS = {
    _PROVIDER: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""A checkpoint freezes the provider. A runtime whose default is its own RocksDB keeps it (Databricks 17.3 and newer:
"Configure RocksDB state store")."""

STREAM_SETTINGS = STATE_STORE_SETTINGS | {
    _PARTITIONS: "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.minBatchesToRetain": "20",
    # Otherwise a trigger without new records still runs a batch.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # An append with the default of 50 costs 6-8 s, with 1 about 1.3 s.
    "spark.databricks.delta.snapshotPartitions": "1",
    # With the trigger `asap`: how long to wait for records before the source is asked again.
    "spark.sql.streaming.pollingDelay": "50ms",
    # The Python worker buffers this many output rows before it returns any.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
}

LOCAL_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # No streaming query uses it, and Spark warns of each that it disables it.
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.driver.defaultJavaOptions": _COLLECTOR,
    "spark.executor.defaultJavaOptions": _COLLECTOR,
    # Both of Spark's implementations write and rename alike, but the default one runs `readlink` and `chmod` for local
    # files: ten processes per file, sixty per batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.warehouse.dir": "/nonexistent/pid-quota-uses-no-warehouse",
    "spark.log.level": "WARN",
}


def stream_session(
    jars: Sequence[str],
    master: str = DEFAULT_MASTER,
    py_files: str = "",
    *,
    debug: bool = False,
    java_options: Sequence[str] = (),
) -> SparkSession:
    """Return a session for the stream.

    Args:
        jars: Paths of the Kafka source and Delta; empty to use the runtime's own session and jars.
        master: Spark master of a session started here.
        py_files: Comma-separated wheels or archives of our packages, for workers that lack them.
        debug: Whether the JVM shows stack traces.
        java_options: More options of a JVM started here.

    Raises:
        SessionError: If the runtime's session refuses a setting.
    """
    builder = SparkSession.builder.appName("pid-quota")
    if jars:
        # Workers must run the same Python with the same packages as the driver.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("MALLOC_ARENA_MAX", _MALLOC_ARENAS)
        builder = builder.master(master).config("spark.jars", ",".join(jars))
        of_workers = _LOCAL_WORKER_SETTINGS if master.startswith("local") else {}
        for name, value in (LOCAL_SETTINGS | STREAM_SETTINGS | of_workers).items():
            builder = builder.config(name, value)
        quiet = [] if debug else [f'"{_log_settings()}"']
        builder = builder.config("spark.driver.defaultJavaOptions", " ".join((_COLLECTOR, *java_options, *quiet)))
        if not debug:
            silence_the_jvms_end()
        if py_files:
            builder = builder.config("spark.submit.pyFiles", ",".join(map(_importable, py_files.split(","))))
        with uninterrupted():
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
            msg = f"this Spark session does not take {name}={value} ({reason}): the stream needs a classic cluster"
            raise SessionError(msg) from error
    return session


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Run the block to its end, and raise what Ctrl-C or SIGTERM would have raised in it only then.

    pyspark waits for the JVM that it starts to write a file. Interrupted, it deletes the file's folder and forgets the
    JVM, which then fails to write, and stays for good.
    """
    held: list[int] = []

    def hold(number: int, _frame: object) -> None:
        held.append(number)

    # Python runs handlers in the main thread. A signal without one ends the process, and thereby, by a pipe, the JVM.
    is_main = threading.current_thread() is threading.main_thread()
    numbers = [each for each in (signal.SIGINT, signal.SIGTERM) if is_main and callable(signal.getsignal(each))]
    before = {number: signal.signal(number, hold) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            # pyspark may have set a handler of its own.
            if signal.getsignal(number) is hold:
                signal.signal(number, handler)
        for each in held:
            signal.raise_signal(each)


def silence_the_jvms_end() -> None:
    """Keep Spark and py4j from printing a trace when the JVM ends: our last line has the same information."""
    # Their names differ between Spark 4.0 and 4.2.
    members = vars(accumulators).values()
    servers: list[Any] = [each for each in members if isinstance(each, type) and issubclass(each, BaseServer)]
    for server in servers:
        server.handle_error = lambda *_: None
    # py4j logs to the root logger that the JVM does not answer, from whatever thread asks it.
    logging.getLogger().addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


def _log_settings() -> str:
    return f"-Dlog4j2.configurationFile={resources.files('jvm').joinpath('log4j2-stream.properties')}"


def _cores(session: SparkSession) -> int:
    """Return how many tasks Spark runs at a time: it splits a range into as many parts."""
    (plan,) = session.sql("EXPLAIN SELECT * FROM range(1)").collect()
    splits = re.search(r"splits=(\d+)", plan[0])
    return int(splits[1]) if splits else _MIN_PARTITIONS


def _partitions(master: str, cores: Callable[[], int]) -> int:
    """Return the number of state partitions of a new checkpoint: where tasks run in this process, one for each.

    Examples:
        >>> [_partitions("local[*]", lambda: cores) for cores in (1, 6, 64)], _partitions("local[1]", lambda: 1)
        ([2, 6, 8], 1)
        >>> _partitions("spark://127.0.0.1:7077", lambda: 2)
        4
    """
    if not master.startswith("local"):
        return int(STREAM_SETTINGS[_PARTITIONS])
    least = _MIN_PARTITIONS if master == DEFAULT_MASTER else 1
    return min(max(cores(), least), _MAX_PARTITIONS)


def _importable(archive: str) -> str:
    """Return an archive that Spark's workers can import from: a wheel is copied to a .zip, which they require."""
    path = Path(archive)
    if path.suffix != ".whl":
        return archive
    folder = Path(tempfile.mkdtemp(prefix="pid-quota-wheel-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(shutil.copy(path, folder / f"{path.stem}.zip"))

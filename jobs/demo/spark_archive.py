"""The class archive of the demo's JVMs, which halves the CPU time of Spark's start.

`make demo` runs this module, which records the classes of a broker with the plugin, and of a stream that reads one
event.
"""

import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Producer

from broker.local.local_broker import LocalBroker
from jobs.cli import run_command
from jobs.demo.broker import create_orders, demo_broker
from jobs.demo.clients import ORDERS
from jobs.errors import JobError
from jobs.stream.stream_progress import StreamProgress
from jvm.class_archive import ClassArchive
from jvm.jar_sets import jars_folder, spark_jars
from jvm.java import QUICK_JVM, find_java
from jvm.process import run_to_end
from tables.store.path_tables import create_missing
from wire.topics import PRODUCE_EVENTS

_TIMEOUT_S = 300.0
_POLL_S = 0.1


def spark_archive() -> ClassArchive:
    """Return the archive of the installed Spark."""
    return ClassArchive.of(find_java(), os.pathsep.join(_jars()))


def make() -> None:
    """If Spark's archive is missing, create the archives of Spark and of the broker."""
    archive = spark_archive()
    if archive.own is None or archive.options(write=False):
        return
    print("recording the classes that the demo needs, once, so that it starts fast")
    # A JVM with another compiler could not use the archive.
    os.environ.setdefault(QUICK_JVM, "1")
    with tempfile.TemporaryDirectory(prefix="pid-quota-classes-") as name:
        folder = Path(name)
        create_missing(str(folder / "tables"))
        with demo_broker(folder / "broker") as broker:
            _make_event(broker, folder / "checkpoint")
            (folder / "address").write_text(broker.admin_servers, encoding="ascii")
            places = [str(folder / each) for each in ("tables", "checkpoint", "address")]
            options = ["--trigger", "available-now", "--note-classes", str(archive.own)]
            # Wait for the end of the JVM's output, because the JVM writes the archive before that end.
            code, printed = run_to_end([sys.executable, "-m", "jobs.demo.early_stream", *places, *options], _TIMEOUT_S)
    if code == 0:
        archive.keep()
    else:
        print(
            f"recording failed (exit code {code}), so the demo starts slowly: {printed.strip()[-400:]}", file=sys.stderr
        )


def _make_event(broker: LocalBroker, checkpoint: Path) -> None:
    """Produce a message, and wait for the plugin's event."""
    create_orders(broker.admin_config())
    broker.wait_for_plugin()
    producer = Producer(broker.client_config("alice") | {"enable.idempotence": True, "log_level": 0})
    producer.produce(ORDERS, b"one order")
    producer.flush(_TIMEOUT_S)
    progress = StreamProgress(checkpoint, broker.admin_config(), PRODUCE_EVENTS)
    give_up_at = time.monotonic() + _TIMEOUT_S
    while not any(progress.ends().values()):
        if time.monotonic() > give_up_at:
            msg = f"the plugin wrote no event within {_TIMEOUT_S:g} s. Try again when this machine is less busy"
            raise JobError(msg)
        time.sleep(_POLL_S)


def _jars() -> Iterator[str]:
    """Yield the path, size and modification time of each jar. A JVM compares these values before it uses an archive."""
    spec = importlib.util.find_spec("pyspark")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    own = [Path(jar).resolve() for jar in spark_jars(jars_folder())]
    for jar in [*(jar for folder in folders for jar in sorted(Path(folder, "jars").glob("*.jar"))), *own]:
        yield f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}"


if __name__ == "__main__":
    run_command(make)

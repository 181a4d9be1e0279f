"""Makes and opens the golden stream: the tables and the checkpoint that a version wrote, small enough to keep.

`python tests/kits/golden_kit.py` writes `tests/golden/golden-<version>.tar.gz`. Run it when a version is tagged, and
keep the archives of earlier ones: each must open, or be refused with the way out. `golden-0.1.0-state-1` is of a state
version that no release reads any more.
"""

import tarfile
import tempfile
from pathlib import Path

from broker.local.local_broker import LocalBroker
from jobs import __version__
from jvm.jar_sets import jars_folder, spark_jars
from streaming.session import stream_session
from tests.kits.fault_kit import Stream, new_topic, send, traffic

FOLDER = Path(__file__).parents[1] / "golden"
TOPIC = "produce-events-golden"
BEGIN_MS = 1_790_000_100_000
RECORDS = 600
"""Those of the golden stream; what a test adds comes after them."""


def fill_topic(broker: LocalBroker, count: int) -> None:
    """Make the topic anew on a broker that has none, with the same records in the same places each time."""
    new_topic(broker, partitions=2, name=TOPIC)
    send(broker, TOPIC, traffic(count, begin_ms=BEGIN_MS))


def unpack(archive: Path, folder: Path, servers: str) -> Stream:
    """Return the golden stream of an archive, to be gone on with."""
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")
    return golden_stream(folder, servers)


def golden_stream(folder: Path, servers: str) -> Stream:
    """Return a stream as the archives have it, with a state per principal."""
    return Stream(folder, servers, TOPIC, RECORDS // 2, state_buckets=0)


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch, LocalBroker(Path(scratch) / "kafka") as broker:
        fill_topic(broker, RECORDS)
        stream = golden_stream(Path(scratch) / "stream", broker.admin_servers).prepared()
        spark = stream_session(spark_jars(jars_folder()))
        stream.run(spark)
        spark.stop()
        with tarfile.open(FOLDER / f"golden-{__version__}.tar.gz", "w:gz") as archive:
            for name in ("tables", "checkpoint"):
                archive.add(stream.root / name, name)


if __name__ == "__main__":
    main()

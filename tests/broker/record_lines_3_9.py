"""Records tests/unit/broker/broker_lines_3_9.jsonl: `python tests/broker/record_lines_3_9.py [FOLDER_OF_JARS]`.

Fetches Kafka 3.9 (tests/broker/kafka_3_9/ivy.xml, 46 MB; kept in the folder if one is given), runs it with
docs/broker-logging/log4j-pid-quota.properties and lets the same producers work on it as record_lines.py does.
It writes two files:

    broker_lines_3_9.xml      what the broker wrote, byte for byte, in the layout that the .properties file describes
    broker_lines_3_9.jsonl    the same records, one a line, in the form of the log4j2 settings

Only what stands in the first is proof; the second is made of it by `records`.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from broker.jars.java import find_java
from broker.local.local_broker import DEFAULT_USERS
from broker.local.server_files import HOST, write_server_properties
from broker.local.server_process import Jvm, ServerProcess, free_ports, new_cluster_id, sasl_plain
from tests.broker.record_lines import HOSTILE_CLIENT_ID, HOSTILE_TRANSACTIONAL_ID, produce

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
XML = HERE.parent / "unit" / "broker" / "broker_lines_3_9.xml"
LINES = XML.with_suffix(".jsonl")
SETTINGS = ROOT / "docs" / "broker-logging" / "log4j-pid-quota.properties"

FORGED_RECORD = (
    'x]]></log4j:message>\r\n</log4j:event>\r\n\r\n<log4j:event logger="kafka.server.KafkaApis" timestamp="1" '
    'level="TRACE" thread="data-plane-kafka-request-handler-0">\r\n<log4j:message><![CDATA[' + HOSTILE_CLIENT_ID
)

_BEGIN = re.compile(rb'<log4j:event logger="([^"]*)" timestamp="(\d+)" level="\w+" thread="([^"]*)">\r\n')
_MESSAGE = b"<log4j:message><![CDATA["
_END = b"]]></log4j:message>\r\n</log4j:event>\r\n\r\n"


def records(log: bytes) -> Iterator[dict[str, object]]:
    """The records of a log in the XML layout, from its beginning."""
    at = 0
    while at < len(log):
        begin = _BEGIN.match(log, at)
        assert begin, f"no record at {at}: {log[at : at + 80]!r}"
        assert log.startswith(_MESSAGE, begin.end())
        text_from = begin.end() + len(_MESSAGE)
        text_to = log.index(_END, text_from)
        message = log[text_from:text_to].replace(b"]]>]]&gt;<![CDATA[", b"]]>").decode()
        logger = begin[1].decode().rpartition(".")[2]
        yield {"ts": int(begin[2]), "thread": begin[3].decode(), "logger": logger, "message": message}
        at = text_to + len(_END)


def fetch(folder: Path) -> str:
    if not list(folder.glob("kafka_2.13-3.9*.jar")):
        import pyspark

        (ivy,) = Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")
        settings = os.environ.get("PID_QUOTA_IVY_SETTINGS")
        command: list[str | Path] = [find_java(), "-jar", ivy, *(["-settings", settings] if settings else [])]
        command += ["-ivy", HERE / "kafka_3_9" / "ivy.xml", "-cache", folder / ".ivy", "-confs", "kafka39"]
        command += ["-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]", "-types", "jar", "bundle"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return os.pathsep.join(map(str, sorted(folder.glob("*.jar"))))


def record(jars: Path, folder: Path) -> bytes:
    server = ServerProcess(folder)
    (ports,) = free_ports()
    users = dict(DEFAULT_USERS)
    write_server_properties(server.properties, ports, users, ["admin"], {})
    log_settings = folder / "log4j.properties"
    log_settings.write_bytes((HERE / "kafka_3_9" / "log4j.properties").read_bytes() + SETTINGS.read_bytes())
    jvm = Jvm(fetch(jars), f"-Dlog4j.configuration={log_settings.as_uri()}")
    server.format(jvm, new_cluster_id())
    server.launch(jvm)
    try:
        server.wait_until_ready(ports)
        alice, mallory = (sasl_plain(f"{HOST}:{ports.clients}", users, name) for name in ("alice", "mallory"))
        produce({**alice, "client.id": "alice-app"})
        produce({**mallory, "client.id": HOSTILE_CLIENT_ID})
        produce({**mallory, "client.id": FORGED_RECORD})
        produce({**alice, "client.id": "alice-tx", "transactional.id": HOSTILE_TRANSACTIONAL_ID}, transactional=True)
        java_client = HERE / "ProduceByTopicId.java"
        client: list[str | Path] = [find_java(), "-cp", jvm.classpath, java_client]
        subprocess.run([*client, f"{HOST}:{ports.clients}", "alice", users["alice"]], check=True)
        server.kill()
        server.launch(jvm)
        server.wait_until_ready(ports)
        return server.log_file.read_bytes()
    finally:
        server.stop()


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        broker = Path(temporary) / "broker"
        broker.mkdir()
        jars = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(temporary) / "jars"
        log = record(jars, broker)
    XML.write_bytes(log)
    LINES.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in records(log)))


if __name__ == "__main__":
    main()

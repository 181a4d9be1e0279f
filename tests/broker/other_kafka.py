"""Brokers of other Kafka versions than ours, fetched by Ivy and kept beside our jars.

`other_kafka.sha256` pins their digests, each jar once, in whichever versions it is.
"""

import hashlib
import os
import subprocess
from pathlib import Path

from broker.jars.jar_sets import jars_folder
from broker.jars.java import find_java
from broker.local.local_broker import LocalBroker
from broker.local.server_files import Ports, write_log_settings, write_server_properties
from broker.local.server_process import Jvm, new_cluster_id
from wire.holds import HOLD_AUTHORIZER

_PINNED = Path(__file__).with_suffix(".sha256")
_LOG4J_1 = Path(__file__).with_name("kafka_3_9") / "log4j.properties"
_IVY = """\
<ivy-module version="2.0">
  <info organisation="pid-quota" module="other_kafka"/>
  <configurations><conf name="kafka"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{version}" conf="kafka->default"/>
    <dependency org="{org}" name="{name}" rev="{rev}" conf="kafka->default"/>
  </dependencies>
</ivy-module>
"""
_LOGGERS = {
    "3": {"org": "org.slf4j", "name": "slf4j-reload4j", "rev": "1.7.36"},
    "4": {"org": "org.apache.logging.log4j", "name": "log4j-slf4j-impl", "rev": "2.25.4"},
}


def fetch_kafka(version: str) -> str:
    """The class path of a broker of that version, fetched once."""
    folder = jars_folder() / "other" / version
    complete = folder / ".complete"
    if not complete.exists():
        import pyspark

        folder.mkdir(parents=True, exist_ok=True)
        (ivy,) = Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")
        module = folder / "ivy.xml"
        module.write_text(_IVY.format(version=version, **_LOGGERS[version[0]]), encoding="ascii")
        settings = os.environ.get("PID_QUOTA_IVY_SETTINGS")
        command = [find_java(), "-jar", str(ivy), *(["-settings", settings] if settings else [])]
        command += ["-ivy", str(module), "-cache", str(folder / ".ivy"), "-confs", "kafka"]
        command += ["-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]", "-types", "jar", "bundle"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        complete.touch()
    jars = sorted(folder.glob("*.jar"))
    pinned = {name: digest for digest, name in map(str.split, _PINNED.read_text(encoding="ascii").splitlines())}
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in jars}
    assert found, f"Ivy left nothing in {folder}"
    assert found.items() <= pinned.items(), f"not as {_PINNED} has it: {dict(found.items() - pinned.items())}"
    return os.pathsep.join(map(str, jars))


class OtherKafka(LocalBroker):
    """A broker of another version, with the class."""

    def __init__(self, folder: Path, version: str, authorizer: Path) -> None:
        super().__init__(folder)
        self._version, self._jar = version, authorizer

    def _start_on(self, ports: Ports) -> None:
        server = self._server
        properties = {"authorizer.class.name": HOLD_AUTHORIZER}
        write_server_properties(server.properties, ports, self._users, ["admin"], properties)
        if self._version.startswith("3"):
            option = f"-Dlog4j.configuration={_LOG4J_1.as_uri()}"
        else:
            option = f"-Dlog4j2.configurationFile={write_log_settings(server.folder)}"
        jvm = Jvm(fetch_kafka(self._version), option, more_jars=(self._jar,))
        server.format(jvm, new_cluster_id())
        server.launch(jvm)
        server.wait_until_ready(ports)

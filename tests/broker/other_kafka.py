"""Brokers of other Kafka versions than ours, fetched by Ivy and kept beside our jars.

`other_kafka.sha256` pins their digests, each jar once, in whichever versions it is.
"""

import hashlib
import os
from pathlib import Path
from typing import Any

from broker.local.local_broker import LocalBroker
from broker.local.server_process import Jvm
from jvm.jar_sets import jars_folder
from tests.kits.ivy_kit import retrieve

_PINNED = Path(__file__).with_suffix(".sha256")
_LOG4J_1 = """\
log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File=${kafka.logs.dir}/server.log
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
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
        folder.mkdir(parents=True, exist_ok=True)
        module = folder / "ivy.xml"
        module.write_text(_IVY.format(version=version, **_LOGGERS[version[0]]), encoding="ascii")
        pattern = "[artifact]-[revision](-[classifier]).[ext]"
        retrieve(folder, "-ivy", module, "-confs", "kafka", "-types", "jar", "bundle", pattern=pattern)
        complete.touch()
    jars = sorted(folder.glob("*.jar"))
    pinned = {name: digest for digest, name in map(str.split, _PINNED.read_text(encoding="ascii").splitlines())}
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in jars}
    assert found, f"Ivy left nothing in {folder}"
    assert found.items() <= pinned.items(), f"not as {_PINNED} has it: {dict(found.items() - pinned.items())}"
    return os.pathsep.join(map(str, jars))


class OtherKafka(LocalBroker):
    """A broker of another version, with the plugin."""

    def __init__(self, folder: Path, version: str, jars: Path, *, holds: bool = False, **properties: Any) -> None:
        super().__init__(folder, jars=jars, holds=holds, **properties)
        self._version = version

    def _java(self) -> Jvm:
        ours = super()._java()
        log4j_1 = self.folder / "log4j.properties"
        log4j_1.write_text(_LOG4J_1, encoding="ascii")
        option = f"-Dlog4j.configuration={log4j_1.as_uri()}" if self._version.startswith("3") else ours.log_option
        return Jvm(fetch_kafka(self._version), option, ours.more_jars)

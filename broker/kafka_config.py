"""Client settings of a Kafka cluster: one file for librdkafka clients and for Spark's Kafka source."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from broker.errors import KafkaConfigError

_JAAS_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True)
class KafkaConfig:
    """Settings of a client, under librdkafka's names. Never printed: they may hold a password.

    Attributes:
        settings: Such as `bootstrap.servers`, `security.protocol`, `sasl.mechanisms`, `sasl.username`.
    """

    settings: dict[str, str] = field(repr=False)

    @classmethod
    def load(cls, bootstrap_servers: str, file: Path | None = None) -> KafkaConfig:
        """Read a file of `name=value` lines (`#` begins a comment line).

        Raises:
            KafkaConfigError: If the file can't be read or a line is not of that form.
        """
        settings: dict[str, str] = {}
        if file is not None:
            for number, line in enumerate(_lines(file), start=1):
                name, equals, value = line.partition("=")
                if not line.strip() or line.lstrip().startswith("#"):
                    continue
                if not (equals and name.strip()):
                    msg = f"{file}, line {number} is not of the form name=value: write 'sasl.username=alice', say"
                    raise KafkaConfigError(msg)
                settings[name.strip()] = value.strip()
        return cls(settings | {"bootstrap.servers": bootstrap_servers})

    def client(self) -> dict[str, str]:
        """Return the settings for confluent-kafka."""
        return dict(self.settings)

    def spark_options(self, jaas_prefix: str = "") -> dict[str, str]:
        """Return the settings as options of Spark's Kafka source, whose client is the Java one.

        Args:
            jaas_prefix: Put before the login module's class: `kafkashaded.` on Databricks.
        """
        java = {name: value for name, value in self.settings.items() if not name.startswith(("sasl.", "ssl."))}
        mechanism = self.settings.get("sasl.mechanisms", self.settings.get("sasl.mechanism"))
        if mechanism:
            java["sasl.mechanism"] = mechanism
            java["sasl.jaas.config"] = self._jaas(mechanism, jaas_prefix)
        if "ssl.ca.location" in self.settings:
            java |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.settings["ssl.ca.location"]}
        return {f"kafka.{name}": value for name, value in java.items()}

    def _jaas(self, mechanism: str, prefix: str) -> str:
        module = _JAAS_MODULES.get(mechanism)
        if module is None:
            msg = f"sasl.mechanisms={mechanism} is not supported: use one of {', '.join(_JAAS_MODULES)}"
            raise KafkaConfigError(msg)
        user, password = (
            self.settings.get(name, "").replace("\\", "\\\\").replace('"', '\\"')
            for name in ("sasl.username", "sasl.password")
        )
        return f'{prefix}{module} required username="{user}" password="{password}";'


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        msg = f"Kafka settings file {file} can't be read ({error}): check the path and its permissions"
        raise KafkaConfigError(msg) from error

"""Kafka client settings from one file, for librdkafka, kafka-python and Spark's Kafka source."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from broker.errors import KafkaConfigError
from broker.kafka.java_properties import is_java, librdkafka_settings

_LINE_END = re.compile("\r\n|\n|\r")
_JAAS_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}

_MECHANISM_NAMES = ("sasl.mechanisms", "sasl.mechanism")
_KAFKA_PYTHON = {
    "client.id": "client_id",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.crl.location": "ssl_crlfile",
}
_JAVA = {
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.key.password": "ssl.key.password",
    "ssl.keystore.location": "ssl.keystore.location",
    "ssl.keystore.password": "ssl.keystore.password",
    "ssl.endpoint.identification.algorithm": "ssl.endpoint.identification.algorithm",
}
"""Java's names of the TLS settings. Certificates and keys are PEM, except in a PKCS#12 keystore."""
_JAVA_PEM_KEYS = ("BEGIN PRIVATE KEY", "BEGIN ENCRYPTED PRIVATE KEY")
_NOT_FOR_JAVA = ("ssl.crl.", "ssl.engine.", "ssl.cipher.", "ssl.curves.", "ssl.sigalgs.", "sasl.oauth", "sasl.kerberos")
_NOT_FOR_KAFKA_PYTHON = (
    "ssl.ca.pem",
    "ssl.certificate.pem",
    "ssl.key.pem",
    "ssl.keystore.",
    "ssl.engine.",
    "sasl.oauth",
)
_INSTEAD_OF_TOKENS = (
    f"use one of {', '.join(_JAAS_MODULES)}, or a TLS client certificate. Cloud services offer these beside tokens: "
    "MSK SASL/SCRAM and mutual TLS, Confluent Cloud API keys (PLAIN)"
)


@dataclass(frozen=True)
class KafkaConfig:
    """A client's settings, under librdkafka's names. They are never printed, because they may contain a password."""

    settings: dict[str, str] = field(repr=False)

    @classmethod
    def load(cls, bootstrap_servers: str, file: Path | None = None, password_file: Path | None = None) -> "KafkaConfig":
        """Read a file of settings. The first line of `password_file` takes the place of `sasl.password`."""
        found = cls.parse(bootstrap_servers, [] if file is None else _settings_lines(file), str(file))
        if password_file is None:
            return found
        first, *_ = _lines(password_file, "Kafka password file") or [""]
        if not first.strip():
            msg = f"Kafka password file {password_file} begins with an empty line: the first line is the password"
            raise KafkaConfigError(msg)
        return cls(found.settings | {"sasl.password": first.strip()})

    @classmethod
    def parse(cls, bootstrap_servers: str, lines: Iterable[str], origin: str) -> "KafkaConfig":
        """Read lines `name=value` and comments (`#`), or the lines of a Java properties file."""
        lines = list(lines)
        if is_java(lines):
            return cls(librdkafka_settings(lines, origin) | {"bootstrap.servers": bootstrap_servers})
        settings: dict[str, str] = {}
        for number, line in enumerate(lines, start=1):
            name, equals, value = line.partition("=")
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            if not (equals and name.strip()):
                msg = f"{origin}, line {number} is not of the form name=value: write it like 'sasl.username=alice'"
                raise KafkaConfigError(msg)
            settings[name.strip()] = value.strip()
        mechanisms = {settings[name] for name in _MECHANISM_NAMES if name in settings}
        if len(mechanisms) > 1:
            msg = f"{origin}: {' and '.join(_MECHANISM_NAMES)} are one setting, with two values here: keep one of them"
            raise KafkaConfigError(msg)
        return cls(settings | {"bootstrap.servers": bootstrap_servers})

    def client(self) -> dict[str, str]:
        """Return the settings for confluent-kafka."""
        return dict(self.settings)

    def spark_options(self, jaas_prefix: str = "") -> dict[str, str]:
        """Return the settings as options of Spark's Kafka source. `jaas_prefix` precedes the login module's class.

        Raises KafkaConfigError for a security setting without a counterpart in Java.
        """
        self._refuse(_NOT_FOR_JAVA, "by Spark's Kafka source")
        java = {name: value for name, value in self.settings.items() if not name.startswith(("sasl.", "ssl."))}
        mechanism = self.settings.get("sasl.mechanisms", self.settings.get("sasl.mechanism"))
        if mechanism:
            java["sasl.mechanism"] = mechanism
            if mechanism not in _JAAS_MODULES:
                raise _unsupported(mechanism)
            user, password = (
                self.settings.get(name, "").replace("\\", "\\\\").replace('"', '\\"')
                for name in ("sasl.username", "sasl.password")
            )
            login = f'{_JAAS_MODULES[mechanism]} required username="{user}" password="{password}";'
            java["sasl.jaas.config"] = jaas_prefix + login
        if "security.protocol" in java:
            java["security.protocol"] = java["security.protocol"].upper()
        java |= self._java_tls()
        return {f"kafka.{name}": value for name, value in java.items()}

    def kafka_python(self) -> dict[str, object]:
        """Return the settings for kafka-python, without settings that only tune a client.

        Raises KafkaConfigError for a security setting that kafka-python lacks.
        """
        self._refuse(_NOT_FOR_KAFKA_PYTHON, "with kafka-python: put certificates into files (such as ssl.ca.location)")
        mechanism = self.settings.get("sasl.mechanisms", self.settings.get("sasl.mechanism"))
        if mechanism is not None and mechanism not in _JAAS_MODULES:
            raise _unsupported(mechanism)
        found: dict[str, object] = {
            theirs: self.settings[ours] for ours, theirs in _KAFKA_PYTHON.items() if ours in self.settings
        }
        found["bootstrap_servers"] = self.settings["bootstrap.servers"].split(",")
        if "security.protocol" in self.settings:
            found["security_protocol"] = self.settings["security.protocol"].upper()
        if mechanism is not None:
            found["sasl_mechanism"] = mechanism
        # By default, both libraries check the host name.
        if self.settings.get("ssl.endpoint.identification.algorithm") == "none":
            found["ssl_check_hostname"] = False
        return found

    def _java_tls(self) -> dict[str, str]:
        settings = self.settings
        java = {theirs: settings[ours] for ours, theirs in _JAVA.items() if ours in settings}
        if java.get("ssl.endpoint.identification.algorithm") == "none":
            java["ssl.endpoint.identification.algorithm"] = ""
        if "ssl.ca.location" in settings or "ssl.ca.pem" in settings:
            java["ssl.truststore.type"] = "PEM"
        if "ssl.keystore.location" in settings:
            java["ssl.keystore.type"] = "PKCS12"
        chain, key = self._pem("ssl.certificate"), self._pem("ssl.key")
        if chain and key:
            # Java reads certificate and key from one file or from two settings.
            if not any(begin in key for begin in _JAVA_PEM_KEYS):
                msg = (
                    "the key of ssl.key.location is not in PKCS#8, which Spark's Kafka source needs: "
                    "convert it with `openssl pkcs8 -topk8 -in KEY -out NEW_KEY`"
                )
                raise KafkaConfigError(msg)
            java |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}
        return java

    def _pem(self, name: str) -> str | None:
        if f"{name}.location" in self.settings:
            return "\n".join(_lines(Path(self.settings[f"{name}.location"]), f"{name}.location"))
        return self.settings.get(f"{name}.pem")

    def _refuse(self, names: tuple[str, ...], where: str) -> None:
        unsupported = sorted(name for name in self.settings if name.startswith(names))
        if unsupported:
            instead = f": {_INSTEAD_OF_TOKENS}" if unsupported[0].startswith("sasl.oauth") else ""
            msg = f"{unsupported[0]} can't be used {where}{instead}"
            raise KafkaConfigError(msg)
        if self.settings.get("enable.ssl.certificate.verification", "true").lower() == "false":
            msg = "enable.ssl.certificate.verification=false is not supported: name the CA in ssl.ca.location"
            raise KafkaConfigError(msg)


def _unsupported(mechanism: str) -> KafkaConfigError:
    # With OAUTHBEARER or AWS_MSK_IAM, each of the three client libraries would have to renew a token.
    return KafkaConfigError(f"sasl.mechanisms={mechanism} is not supported: {_INSTEAD_OF_TOKENS}")


def _settings_lines(file: Path) -> list[str]:
    """Return a file's lines as the clients read them: Java decodes ISO-8859-1, librdkafka's users write UTF-8."""
    lines = _LINE_END.split(_text(file, "Kafka settings file", "iso-8859-1"))
    return lines if is_java(lines) else _lines(file, "Kafka settings file")


def _lines(file: Path, what: str) -> list[str]:
    return _text(file, what, "utf-8").splitlines()


def _text(file: Path, what: str, encoding: str) -> str:
    try:
        return file.read_bytes().decode(encoding)
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{what} {file} can't be read ({error}): check the path and its permissions"
        raise KafkaConfigError(msg) from error

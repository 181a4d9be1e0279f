"""The settings of Kafka's client, from what a user names with `--command-config`."""

import os
from pathlib import Path

from broker.kafka.config import KafkaConfig
from jobs.options import LOGIN_FILE
from streaming.databricks import secret_lines

PREFIX = "secret:"
"""How a Databricks secret begins, which takes the place of a file."""


def kafka_login(bootstrap_servers: str, config: Path | None) -> KafkaConfig:
    """Return the client's settings of a file or a Databricks secret.

    Raises:
        KafkaConfigError: If the file is missing or wrong.
        SecretError: If the secret can't be read.
    """
    if secret := secret_name(config):
        return KafkaConfig.parse(bootstrap_servers, secret_lines(secret), f"secret {secret}")
    password_file = os.environ.get(LOGIN_FILE)
    return KafkaConfig.load(bootstrap_servers, config, Path(password_file) if password_file else None)


def secret_name(config: Path | None) -> str:
    """Return the Databricks secret that `config` names, as SCOPE/KEY; an empty text if it is a file.

    Examples:
        >>> secret_name(Path("secret:pid-quota/kafka-client")), secret_name(Path("client.properties"))
        ('pid-quota/kafka-client', '')
    """
    text = str(config or "")
    return text.removeprefix(PREFIX) if text.startswith(PREFIX) else ""

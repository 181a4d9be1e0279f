"""Options of the commands that talk to Kafka, also by the names that Kafka's own tools give them."""

from pathlib import Path
from typing import Annotated

import typer

SERVERS = ("--bootstrap-servers", "--bootstrap-server")
"""Names of the option; commands to which it means more than an address word its help themselves."""

BootstrapServers = Annotated[str, typer.Option(*SERVERS, help="Brokers, as host:port,host:port.")]
KafkaConfigFile = Annotated[
    Path | None,
    typer.Option(
        *("--kafka-config", "--command-config"),
        help="Client settings: name=value lines with librdkafka's names, or a Java properties file.",
    ),
]

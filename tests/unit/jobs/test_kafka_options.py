"""Every command that talks to Kafka takes the options of Kafka's own tools."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.cli import _COMMANDS, load_command
from tests.kits.command_kit import PidQuota


def commands() -> Iterator[tuple[str, Any]]:
    for name in _COMMANDS:
        command = load_command(name)
        yield name, command
        for each, nested in getattr(command, "commands", {}).items():
            yield f"{name} {each}", nested


@pytest.mark.parametrize(("name", "command"), [*commands()], ids=lambda each: each if isinstance(each, str) else "")
def test_the_names_of_kafka_s_tools_go_with_ours(name: str, command: Any) -> None:
    names = [set(parameter.opts) for parameter in command.params]
    ours, theirs = {"--bootstrap-servers", "--kafka-config"}, {"--bootstrap-server", "--command-config"}

    assert sum(bool(each & ours) for each in names) == sum(bool(each & theirs) for each in names)
    if any(each & ours for each in names):
        assert {"--bootstrap-servers", "--bootstrap-server"} in names
        assert {"--kafka-config", "--command-config"} in names or name == "demo-clients"


def test_a_java_file_that_can_t_be_used_is_one_line_without_its_password(pid_quota: PidQuota, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("sasl.mechanism=GSSAPI\nsasl.jaas.config=a.Krb5LoginModule required password=hunter2;\n")

    code, out, err = pid_quota("tap", "status", "--bootstrap-server", "127.0.0.1:1", "--command-config", file)

    assert (code, out) == (1, "")
    assert err == (
        f"error: {file}: sasl.mechanism GSSAPI with the login module Krb5LoginModule is not supported: "
        "use one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512\n"
    )

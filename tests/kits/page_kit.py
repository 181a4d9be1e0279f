"""The commands that a page or a manifest shows, and what runs them on a cluster with passwords on this machine."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.local.local_broker import LocalBroker
from jobs.cli import load_command
from jobs.options import LOGIN_FILE

README = Path(__file__).parents[2] / "README.md"
USERS = {name: f"{name}-secret" for name in ("admin", "mallory", "pid-quota")}
_COMMAND = re.compile(r"\s*(?:\$ )?pid-quota ([a-z-]+(?: .*)?)$")


def commands_in(text: str) -> Iterator[list[str]]:
    """Return the words of each whole command in code blocks, without comments and redirections."""
    is_fenced = False
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        if line.lstrip().startswith("```"):
            is_fenced = not is_fenced
        shown = _COMMAND.match(line) if is_fenced or line.startswith("    ") else None
        if shown and not re.search(r"[…\[]", shown[1]):
            yield shlex.split(re.split(r" +# | [<>|]", shown[1])[0])


def parse(words: list[str]) -> None:
    """Parse a command without running it; raises what the command line reports to its user."""
    command, rest = load_command(words[0]), words[1:]
    while rest and rest[0] in getattr(command, "commands", {}):
        command, rest = command.commands[rest[0]], rest[1:]
    command.make_context(words[0], rest)


def accepted(
    words: Sequence[str], variables: Mapping[str, str], folders: tuple[str, ...], file: Path, patch: pytest.MonkeyPatch
) -> tuple[dict[str, Any], set[str]]:
    """Parse a service's command under its variables. Those that name a file in `folders` name one that exists.

    Returns:
        The values of the options, and the variables that are of no option, without that of the login's file.
    """
    file.write_text("any", encoding="utf-8")
    for name, value in variables.items():
        patch.setenv(name, str(file) if value.startswith(folders) else value)
    command = load_command(words[0])
    values: dict[str, Any] = command.make_context(words[0], [*words[1:]]).params
    return values, variables.keys() - {LOGIN_FILE, *(each.envvar for each in command.params)}


def write_settings(folder: Path) -> Path:
    """Write the settings file of README's step 2, for a cluster without certificates; return its path."""
    text = README.read_text(encoding="utf-8")
    form = text[text.index("<<END\n") + len("<<END\n") : text.index("\nEND\n")]
    lines = [line for line in form.splitlines() if not line.startswith("ssl.")]
    changes = {"SASL_SSL": "SASL_PLAINTEXT", "SCRAM-SHA-512": "PLAIN", "…": USERS["pid-quota"]}
    settings = re.sub("|".join(changes), lambda found: changes[found[0]], "\n".join(lines))
    file = folder / "kafka.properties"
    file.write_text(f"{settings}\n", encoding="utf-8")
    return file


def here(words: list[str], cluster: LocalBroker, folder: Path) -> list[str]:
    """Return a command's words with the addresses and places of this machine."""
    places = {
        "kafka:9092": cluster.bootstrap_servers,
        "/var/lib/pid-quota": str(folder),
        "/data": str(folder),
    }
    return [re.sub("|".join(places), lambda found: places[found[0]], word) for word in words]

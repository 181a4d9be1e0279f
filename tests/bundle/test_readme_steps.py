"""README's setup, each command as it is written there, on a cluster with passwords and ACLs."""

import json
import re
import shlex
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from broker.kafka.roles import Role
from broker.local.local_broker import LocalBroker
from jobs.cli import run
from tests.kits.broker_kit import new_topic, produce, wait_until
from tests.kits.following_kit import Following

pytestmark = pytest.mark.slow

README = Path(__file__).parents[2] / "README.md"
ROLES = [Role.TAP, Role.STREAM, Role.ENFORCER, Role.OPERATOR]
USERS = {name: f"{name}-secret" for name in ("admin", "mallory", *(role.value for role in ROLES))}
LASTING = ("tap", "stream", "enforce")


@pytest.fixture(scope="module")
def cluster(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    folder = tmp_path_factory.mktemp("readme")
    with LocalBroker(folder, USERS, jars=jars, holds=True, allow_everyone_if_no_acl_found="false") as running:
        yield running


def commands() -> list[str]:
    """The commands of the section, in their order."""
    text = README.read_text(encoding="utf-8")
    section = text[text.index("## Set up on your cluster") : text.index("## How a quota works")]
    blocks = re.findall(r"^   ```\n(.*?)^   ```\n", section, re.MULTILINE | re.DOTALL)
    return [line.strip() for block in blocks for line in block.splitlines() if line.strip().startswith("pid-quota ")]


def settings_form() -> str:
    """The settings file of step 2, which README shows for the tap."""
    text = README.read_text(encoding="utf-8")
    begin = text.index("\n", text.index("   # tap.properties"))
    return text[begin : text.index("   ```", begin)]


def settings_file(user: str, password: str) -> str:
    form = settings_form().replace("SASL_SSL", "SASL_PLAINTEXT").replace("SCRAM-SHA-512", "PLAIN")
    lines = form.replace("=tap", f"={user}").replace("=…", f"={password}").splitlines()
    return "".join(f"{line.strip()}\n" for line in lines)


def here(line: str, cluster: LocalBroker, folder: Path) -> list[str]:
    """A command's words, with the addresses and places of this machine."""
    places = {
        "kafka:9092": cluster.bootstrap_servers,
        "/var/log/kafka/pid-quota-broker.log": str(cluster.log_file),
        "/var/lib/pid-quota": str(folder),
        "/data": str(folder),
    }
    for theirs, ours in places.items():
        line = line.replace(theirs, ours)
    return shlex.split(line)[1:]


def test_each_command_works_as_it_is_written(
    cluster: LocalBroker, jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PID_QUOTA_JARS", str(jars))
    monkeypatch.chdir(tmp_path)
    for user, password in USERS.items():
        (tmp_path / f"{user}.properties").write_text(settings_file(user, password))
    with ExitStack() as stack:
        for line in commands():
            arguments = here(line, cluster, tmp_path)
            if arguments[0] in LASTING:
                following = Following(*arguments)
                stack.callback(following.close)
                # The stream's JVM ends with it only if it may.
                stack.callback(following.end, signal.SIGTERM)
            elif arguments[0] == "doctor":
                wait_until(partial(succeeds, arguments), "nothing is wrong")
            elif arguments[0] == "suggest-quotas":
                # README says that it takes some hours of history.
                assert run(arguments) == 1
                assert "let the stream run past its learning time first" in capfd.readouterr().err
            else:
                assert run(arguments) == 0, (line, capfd.readouterr())
            if arguments[0] == "stream":
                # The next steps look at the events of a user.
                produce(cluster.client_config("admin"), new_topic(cluster, "orders"), messages=3)
                wait_until(lambda: rows("producer_id_metrics") > 0, "the stream writes metrics")
    names = [shlex.split(line)[1] for line in commands()]
    assert names == ["topics", "tap", "stream", "quotas", "quotas", "suggest-quotas", "enforce", "doctor"]


def succeeds(arguments: list[str]) -> bool:
    return run(arguments) == 0


def rows(table: str) -> int:
    folder = Path("pid-quota") / table / "_delta_log"
    return sum("add" in json.loads(line) for file in folder.glob("*.json") for line in file.read_text().splitlines())

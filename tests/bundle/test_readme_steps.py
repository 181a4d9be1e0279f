"""README's setup, each command as it is written there, on a cluster with passwords and ACLs."""

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from broker.local.local_broker import LocalBroker
from jobs.cli import run
from tests.kits.broker_kit import new_topic, produce, wait_until
from tests.kits.following_kit import Following
from tests.kits.page_kit import README, USERS, commands_in, here, write_settings

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    folder = tmp_path_factory.mktemp("readme")
    settings: dict[str, Any] = {"allow_everyone_if_no_acl_found": "false", "pid_quota_writers": "User:stream"}
    with LocalBroker(folder, USERS, jars=jars, holds=True, **settings) as running:
        yield running


def commands() -> list[list[str]]:
    """The commands of the section, in their order."""
    text = README.read_text(encoding="utf-8")
    return list(commands_in(text[text.index("## Set up on your cluster") : text.index("## How a quota works")]))


def test_each_command_works_as_it_is_written(
    cluster: LocalBroker, jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PID_QUOTA_JARS", str(jars))
    monkeypatch.chdir(tmp_path)
    write_settings(tmp_path)
    stack = ExitStack()
    with stack:
        for words in commands():
            arguments = here(words, cluster, tmp_path)
            if arguments[0] == "stream":
                # A later step starts the stream again, with --enforce.
                stack.close()
                following = Following(*arguments)
                stack.callback(following.close)
                # The stream's JVM ends with it only if it may.
                stack.callback(following.end, signal.SIGTERM)
            elif arguments[0] == "doctor":
                wait_until(partial(succeeds, arguments), "nothing is wrong")
            elif arguments[0] == "suggest-quotas":
                with Following(*arguments) as replaying:
                    code, errors = replaying.wait()
                assert code == 0, errors
            else:
                assert run(arguments) == 0, (words, capfd.readouterr())
            if arguments[0] == "stream":
                # The next steps look at the events of a user.
                produce(cluster.client_config("admin"), new_topic(cluster, "orders"), messages=3)
                wait_until(lambda: rows("producer_id_metrics") > 0, "the stream writes metrics")
    names = [words[0] for words in commands()]
    assert names == ["topics", "stream", "quotas", "quotas", "suggest-quotas", "stream", "doctor"]


def succeeds(arguments: list[str]) -> bool:
    return run(arguments) == 0


def rows(table: str) -> int:
    folder = Path("pid-quota") / table / "_delta_log"
    return sum("add" in json.loads(line) for file in folder.glob("*.json") for line in file.read_text().splitlines())

"""The commands of docs/faq.md, on a cluster with passwords and ACLs and on tables of a day."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.local.local_broker import LocalBroker
from jobs.cli import run
from tests.kits.broker_kit import new_topic, produce
from tests.kits.console_kit import demo_tables
from tests.kits.page_kit import README, USERS, commands_in, here, parse, write_settings

pytestmark = pytest.mark.slow

FAQ = README.parent / "docs" / "faq.md"
WOULD_CHANGE, SOMETHING_IS_WRONG = 3, 1


@pytest.fixture
def cluster(jars: Path, tmp_path: Path) -> Iterator[LocalBroker]:
    settings: dict[str, Any] = {"allow_everyone_if_no_acl_found": "false", "pid_quota_writers": "User:pid-quota"}
    with LocalBroker(tmp_path / "kafka", USERS, jars=jars, holds=True, **settings) as broker:
        broker.wait_for_plugin()
        yield broker


def test_each_command_runs_as_it_is_written(
    cluster: LocalBroker,
    jars: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PID_QUOTA_JARS", str(jars.resolve()))
    monkeypatch.chdir(tmp_path)
    tables = tmp_path / "pid-quota" / "tables"
    monkeypatch.setenv("PID_QUOTA_TABLES", str(tables))
    monkeypatch.setenv("PID_QUOTA_BOOTSTRAP_SERVER", cluster.bootstrap_servers)
    settings = write_settings(tmp_path)
    monkeypatch.setenv("PID_QUOTA_COMMAND_CONFIG", str(settings))
    of_admin = settings.read_text(encoding="utf-8").replace("pid-quota", "admin")
    (tmp_path / "admin.properties").write_text(of_admin, encoding="utf-8")
    assert run(["hold", "User:mallory"]) == 0
    demo_tables(tables)
    produce(cluster.client_config("admin"), new_topic(cluster, "orders"), messages=3)
    for words in commands_in(FAQ.read_text(encoding="utf-8")):
        arguments = here(words, cluster, tmp_path)
        if arguments[0] == "stream":
            # A test of README runs the stream.
            parse(arguments)
        else:
            codes = {"--dry-run": WOULD_CHANGE, "doctor": SOMETHING_IS_WRONG}
            expected = next((code for word, code in codes.items() if word in arguments), 0)
            assert run(arguments) == expected, (words, capfd.readouterr())

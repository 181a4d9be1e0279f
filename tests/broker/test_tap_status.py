import json
from pathlib import Path

import pytest

from broker.kafka.topics import ensure_topics
from broker.local.local_broker import LocalBroker
from jobs.cli import run
from tests.kits.broker_kit import broker_tap, new_topic, running, wait_until_idle


def test_status_says_which_broker_nobody_watches(
    broker: LocalBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ensure_topics(broker.admin_config())
    servers = ["--bootstrap-servers", broker.admin_servers]
    events = new_topic(broker, "events")

    with running(broker_tap(broker, topic=events, from_end=True)) as tap:
        wait_until_idle(tap)
        while_watched = run(["tap", "status", *servers])
        watched = capsys.readouterr().out
    after = run(["tap", "status", *servers, "--json"])
    stopped = json.loads(capsys.readouterr().out)

    assert (while_watched, after) == (0, 1)
    assert "every running broker is watched" in watched
    assert stopped["unwatched"] == [1]
    (one,) = [each for each in stopped["brokers"] if each["broker_id"] == 1]
    assert (one["watch"], one["running"], one["heartbeat"]["stopped"]) == ("stopped", True, True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "Missing option '--bootstrap-servers'"),
        (["--bootstrap-servers", "a:1"], "name either --log-file with --broker-id, or --from-topic"),
        (["--bootstrap-servers", "a:1", "--log-file", "x"], "--log-file needs --broker-id"),
        (["--bootstrap-servers", "a:1", "--log-file", "x", "--from-topic", "y"], "name either"),
    ],
)
def test_a_tap_without_a_source_is_said_in_one_line(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["tap", *options]) == 2
    assert said in capsys.readouterr().err

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.cluster.cluster_admin import ClusterAdmin
from broker.cluster.kafka_config import KafkaConfig
from broker.cluster.logging_levels import BROKER_LOGGERS, MARKER, switch_logging
from broker.errors import BrokerUnreachableError
from broker.local.local_broker import LocalBroker
from broker.tap.log_levels_watch import ask_levels
from tests.broker_kit import new_topic, produce, restart, wait_until


@pytest.fixture(scope="module")
def quiet(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A broker of our own: others may be reading the log of the shared one."""
    with LocalBroker(tmp_path_factory.mktemp("quiet"), jars=jars) as running:
        yield running


@pytest.fixture
def admin(quiet: LocalBroker) -> Iterator[ClusterAdmin]:
    with ClusterAdmin(KafkaConfig.load(quiet.admin_servers).kafka_python()) as opened:
        yield opened


def lines_naming(broker: LocalBroker, text: str) -> int:
    return sum(text in json.loads(line)["message"] for line in broker.log_file.read_bytes().splitlines())


def test_lines_stop_and_come_again_without_a_restart(quiet: LocalBroker, admin: ClusterAdmin) -> None:
    silent, loud = new_topic(quiet, "silent"), new_topic(quiet, "loud")

    (off,) = switch_logging(admin, on=False)
    produce(quiet.client_config("alice"), silent)
    (on,) = switch_logging(admin, on=True)
    produce(quiet.client_config("alice"), loud)

    wait_until(lambda: lines_naming(quiet, f"partition={loud}-0] Updated producer") == 1, "logged again")
    assert lines_naming(quiet, silent) == 0
    assert off.changed == dict.fromkeys(BROKER_LOGGERS, "INFO")
    assert on.changed == dict.fromkeys(BROKER_LOGGERS, "TRACE")
    assert off.problem is None
    assert b"Handling request" not in quiet.server_log.read_bytes()


def test_what_is_on_already_is_not_changed(admin: ClusterAdmin) -> None:
    switch_logging(admin, on=True)

    (again,) = switch_logging(admin, on=True)

    assert again.changed == {}
    assert again.problem is None


def test_a_controller_logs_the_blocks_it_hands_out_and_nothing_else(quiet: LocalBroker) -> None:
    # A broker asks for a block when a producer comes and it has none: after its start.
    restart(quiet)

    with ClusterAdmin(KafkaConfig.load(quiet.admin_servers).kafka_python()) as admin:
        (on,) = switch_logging(admin, on=True, controller=True)
        produce(quiet.client_config("alice"), new_topic(quiet, "orders"))
        wait_until(lambda: lines_naming(quiet, "ALLOCATE_PRODUCER_IDS") >= 1, "the block is logged")
        switch_logging(admin, on=False, controller=True)

    assert on.changed == {"kafka.request.logger": "DEBUG"}
    of_requests = [
        json.loads(line)["message"] for line in quiet.log_file.read_bytes().splitlines() if b'"logger":"logger"' in line
    ]
    assert all('"requestApiKeyName":"ALLOCATE_PRODUCER_IDS"' in message for message in of_requests)
    assert b"Completed request" not in quiet.server_log.read_bytes()


def test_a_broker_without_our_appender_is_left_alone_unless_forced(
    admin: ClusterAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch_logging(admin, on=False)
    levels = admin.logger_levels

    def of_a_stock_broker(broker_id: int) -> dict[str, str]:
        return {name: level for name, level in levels(broker_id).items() if name != MARKER}

    monkeypatch.setattr(admin, "logger_levels", of_a_stock_broker)

    (refused,) = switch_logging(admin, on=True)
    assert "would flood server.log" in str(refused.problem)
    assert levels(1)[BROKER_LOGGERS[0]] == "INFO"

    (forced,) = switch_logging(admin, on=True, force=True)
    assert forced.problem is None


def test_a_broker_that_is_not_up_does_not_keep_the_others_from_it(admin: ClusterAdmin) -> None:
    first, second = switch_logging(admin, on=True, broker_ids=[7, 1])

    assert "not up (up: 1)" in str(first.problem)
    assert second.problem is None


def test_an_unreachable_cluster_is_said_in_one_line() -> None:
    with pytest.raises(BrokerUnreachableError, match=r"127\.0\.0\.1:1.*check that it runs"):
        ClusterAdmin({"bootstrap_servers": ["127.0.0.1:1"]}, timeout_ms=300)


def test_a_broker_says_whether_its_log_is_on(quiet: LocalBroker, admin: ClusterAdmin) -> None:
    is_on = ask_levels(KafkaConfig.load(quiet.admin_servers).kafka_python())

    switch_logging(admin, on=False)
    off = is_on(quiet.broker_id)
    switch_logging(admin, on=True)

    assert (off, is_on(quiet.broker_id)) == (False, True)
    assert ask_levels({"bootstrap_servers": ["127.0.0.1:1"]})(1) is None

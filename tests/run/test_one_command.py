"""`pid-quota run` on a real broker, from the quotas in a file to holds, and to an end that leaves nothing."""

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from broker.local.local_broker import LocalBroker
from tables.query.sql_query import query
from tables.quotas.quota_table import quotas_in_force
from tests.kits.broker_kit import new_topic
from tests.kits.hold_kit import Churn, holding_broker, wait_for_hold
from tests.kits.run_kit import LIMIT_S, STREAM_UP, RunCommand, is_there

WINDOW_S = 120
HOLDS = "pid_quota_holds_in_force"
LEFT_OUT = "SELECT principal FROM holds WHERE state = 'left_out' AND reason LIKE 'another stream was first%'"


@pytest.fixture(scope="module")
def broker(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    with holding_broker(tmp_path_factory.mktemp("broker"), jars, WINDOW_S) as running:
        yield running


@pytest.fixture
def command(broker: LocalBroker) -> RunCommand:
    options = ["--window-seconds", str(WINDOW_S), "--trigger", "1 second", "--enforce"]
    return RunCommand(broker.admin_servers, options)


def quotas(rate: float) -> str:
    return f"- {{entity_name: <default>, producer_ids_rate: {rate}}}\n"


def rates(data: Path) -> list[float]:
    return [each.producer_ids_rate for each in quotas_in_force(str(data / "tables"))]


def left_out(data: Path) -> set[str]:
    """Who is not held because it is another stream's turn."""
    return {name for (name,) in query(str(data / "tables"), LEFT_OUT, datetime.now(timezone.utc)).rows}


def test_a_flood_is_held_by_the_quotas_of_a_file_and_the_end_leaves_no_process(
    broker: LocalBroker, command: RunCommand, tmp_path: Path
) -> None:
    # given quotas in a file
    file = tmp_path / "quotas.yaml"
    file.write_text(quotas(60))
    with command.running(tmp_path / "data", "--quotas-file", str(file)) as run:
        run.wait_until_ready()
        assert run.get("/", of_console=True)[0] == 200

        # when a user's clients make a producer for each message
        with Churn(broker.client_config("mallory"), new_topic(broker, "flooded"), 5):
            wait_for_hold(broker)
        assert run.metric(STREAM_UP) == 1
        run.wait_for_metric(HOLDS)

        # and the file is replaced by a bad one, then by a good one
        file.write_text("- nonsense\n")
        run.wait_for_metric('pid_quota_task_failures_total{task="quotas"}')
        assert rates(tmp_path / "data") == [60]
        file.write_text(quotas(70))
        run.until(lambda: rates(tmp_path / "data") == [70], "the file is in force")

        # and it is told to end
        pids = run.pids()
        assert len(pids) > 3
        assert run.stop() == 0

    # then nothing is left
    assert not [pid for pid in pids if is_there(pid)]
    assert "error:" not in run.said()


def test_a_second_run_on_the_folder_ends_with_one_line_and_the_first_goes_on(
    command: RunCommand, tmp_path: Path
) -> None:
    with command.running(tmp_path / "data") as first:
        first.until(lambda: first.get("/healthz")[0] == 200, "it runs")
        with command.running(tmp_path / "data", "--log-format", "json") as second:
            assert second.process.wait(LIMIT_S) == 1
            (line,) = second.said().splitlines()
        assert json.loads(line)["part"] == "run"
        assert f"another `pid-quota run` (process {first.process.pid}) uses --data" in json.loads(line)["message"]
        assert first.process.poll() is None


@pytest.mark.slow
def test_a_second_run_on_the_cluster_says_so_and_takes_no_holds_until_the_first_has_ended(
    broker: LocalBroker, command: RunCommand, tmp_path: Path
) -> None:
    file = tmp_path / "quotas.yaml"
    file.write_text(quotas(5))
    options = ["--quotas-file", str(file)]
    with command.running(tmp_path / "first", *options) as first:
        first.wait_until_ready()
        with command.running(tmp_path / "second", *options) as second:
            for run in (first, second):
                run.wait_for_metric("pid_quota_other_writer")
            with Churn(broker.client_config("alice"), new_topic(broker, "two"), 5):
                held = wait_for_hold(broker, "User:alice")
                first.wait_for_metric(HOLDS)
                second.until(lambda: "User:alice" in left_out(tmp_path / "second"), "the second holds nobody")
                assert second.metric(HOLDS) == 0
                # when the first has ended for good, the other takes its holds
                assert first.stop() == 0
                second.wait_for_metric(HOLDS)
                wait_for_hold(broker, "User:alice", not_by=held.writer)

import json
from pathlib import Path

import pytest

from broker.local.local_broker import LocalBroker
from jobs.cli import run
from tests.kits.broker_kit import new_topic, produce, reports_of, restart, wait_for_report, wait_until
from tests.kits.churn_kit import write_blocks, write_inits
from wire.plugin_reports import BlockReport, InitReport


def pids_of_alice(broker: LocalBroker) -> list[int]:
    answers = [each for each in reports_of(broker, InitReport) if each.principal == "User:alice"]
    return [each.result_producer_id for each in answers if each.error == "NONE"]


@pytest.mark.slow
def test_ids_that_a_restart_lost_are_not_said_to_be_issued(
    jars: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = str(tmp_path / "tables")
    with LocalBroker(tmp_path / "kafka", jars=jars) as broker:
        broker.wait_for_plugin()
        topic = new_topic(broker, "orders")
        for _ in range(3):
            produce(broker.client_config("alice"), topic)
        wait_until(lambda: len(pids_of_alice(broker)) == 3, "all answers")
        restart(broker)
        for _ in range(2):
            produce(broker.client_config("alice"), topic)
        wait_until(lambda: len(pids_of_alice(broker)) == 5, "all answers")
        before, after = pids_of_alice(broker)[:3], pids_of_alice(broker)[3:]
        wait_for_report(broker, BlockReport, lambda report: report.first_producer_id == after[0])
        write_inits(tables, reports_of(broker, InitReport))
        write_blocks(tables, reports_of(broker, BlockReport))

        def fate(pid: int) -> str:
            assert run(["why", str(pid), "--tables", tables, "--json"]) == 0
            return str(json.loads(capsys.readouterr().out)["fate"])

        told = {pid: fate(pid) for pid in (*before, 900, *after, after[-1] + 100)}

    # The second life has a block of its own.
    assert after[0] >= 1000
    assert {told[pid] for pid in (*before, *after)} == {"handed out"}
    assert (told[900], told[after[-1] + 100]) == ("lost", "not yet handed out")

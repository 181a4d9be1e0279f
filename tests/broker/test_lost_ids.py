import json
from pathlib import Path

import pytest

from broker.kafka.topics import ensure_topics
from broker.local.local_broker import LocalBroker
from jobs.cli import run
from tests.kits.broker_kit import (
    broker_tap,
    new_topic,
    produce,
    read_events,
    restart,
    running,
    wait_until_idle,
)
from tests.kits.churn_kit import write_inits
from wire.topics import PRODUCER_INITS

METADATA_LOG = "__cluster_metadata-0"


def produce_under_a_tap(broker: LocalBroker, topic: str, producers: int, events: str) -> list[int]:
    """Returns all ids that alice got so far, as taps saw it."""
    with running(broker_tap(broker, topic=events, from_end=True)) as tap:
        wait_until_idle(tap)
        for _ in range(producers):
            produce(broker.client_config("alice"), topic)
        wait_until_idle(tap)
    records = (record for _, record in read_events(broker, PRODUCER_INITS))
    return [record["result_producer_id"] for record in records if record["principal"] == "User:alice"]


@pytest.mark.slow
def test_ids_that_a_restart_lost_are_not_said_to_be_issued(
    jars: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = str(tmp_path / "tables")
    with LocalBroker(tmp_path / "kafka", jars=jars) as broker:
        ensure_topics(broker.admin_config())
        topic, events = new_topic(broker, "orders"), new_topic(broker, "events")
        before = produce_under_a_tap(broker, topic, 3, events)
        restart(broker)
        after = produce_under_a_tap(broker, topic, 2, events)[len(before) :]
        write_inits(tables, [record for _, record in read_events(broker, PRODUCER_INITS)])
        (log,) = broker.server_log.parent.rglob(METADATA_LOG)

        def fate(pid: int) -> str:
            assert run(["blocks", "--tables", tables, "--metadata-log", str(log), "--pid", str(pid), "--json"]) == 0
            return str(json.loads(capsys.readouterr().out)["fate"])

        told = {pid: fate(pid) for pid in (*before, 900, *after, after[-1] + 100)}

    # The second life has a block of its own.
    assert after[0] >= 1000
    assert {told[pid] for pid in (*before, *after)} == {"handed out"}
    assert (told[900], told[after[-1] + 100]) == ("lost", "not yet handed out")

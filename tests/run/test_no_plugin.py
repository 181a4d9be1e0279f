"""Brokers that load no plugin get a census, until they load it."""

from pathlib import Path

import pytest

from broker.kafka.client import KafkaAdmin
from broker.kafka.config import KafkaConfig
from broker.kafka.reporters import switch_plugin
from broker.local.local_broker import LocalBroker
from tables.query.sql_query import query
from tests.kits.broker_kit import new_topic, produce
from tests.kits.kip_kit import now
from tests.kits.plugin_kit import NO_PLUGIN
from tests.kits.run_kit import STREAM_UP, RunCommand

pytestmark = pytest.mark.slow


def test_brokers_without_a_plugin_get_a_census_and_the_stream_starts_when_they_load_it(
    jars: Path, tmp_path: Path
) -> None:
    # given a broker without the plugin, and a producer on it
    with LocalBroker(tmp_path / "broker", jars=jars, metric_reporters=NO_PLUGIN) as broker:
        produce(broker.client_config("alice"), new_topic(broker, "orders"))

        # when `run` begins
        with RunCommand(broker.admin_servers, ["--trigger", "1 second"]).running(tmp_path / "data") as run:
            run.until(lambda: run.metric('pid_quota_task_done_timestamp_seconds{task="census"}') > 0, "a census")
            run.wait_until_ready()
            assert run.metric(STREAM_UP) < 1
            assert "stream" not in {each.partition(" ")[0] for each in run.said().splitlines()}

            # then the tables have the census
            found = query(str(tmp_path / "data/tables"), "SELECT sum(led_pids) AS n FROM producer_occupancy", now())
            assert found.records()[0]["n"] >= 1

            # and the stream starts when the plugin is there
            with KafkaAdmin(KafkaConfig.load(broker.admin_servers)) as admin:
                switch_plugin(admin, on=True)
            run.wait_for_metric(STREAM_UP)
            run.wait_until_ready()

import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.errors import BrokerStartError
from broker.local.local_broker import LocalBroker
from broker.local.server_process import Jvm
from jvm.broker_jar import broker_jar
from jvm.jar_sets import ensure_jars
from jvm.java import find_java
from tests.kits.broker_kit import (
    LIMIT_S,
    events_of,
    read_events,
    reports_of,
    wait_for_events,
    wait_for_report,
    wait_until,
)
from tests.kits.hold_kit import LOADING, Asker, HoldWriter
from tests.kits.hostile_kit import Hostile, batch
from tests.kits.plugin_kit import ready_topic, set_logger, switch
from wire.plugin_reports import AliveReport, InitReport, PluginState, StopReport

MADE_UP = 5_000_000_000


def made_up_batches(broker: LocalBroker, topic: str, pids: range, client_id: str = "app") -> None:
    with Hostile(broker, "mallory", client_id) as mallory:
        for pid in pids:
            mallory.produce(topic, batch(pid))


def heap_bytes(broker: LocalBroker) -> int:
    """What is reachable in a broker's heap."""
    command = [find_java(), "-m", "jdk.jcmd/sun.tools.jcmd.JCmd", str(broker.pid), "GC.class_histogram"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    return int(done.stdout.split()[-1])


def test_a_small_memory_repeats_events_that_it_no_longer_holds_and_loses_none(jars: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"pid_quota_memory_bytes": 65_536, "pid_quota_repeat_ms": 3_600_000}
    with LocalBroker(tmp_path, jars=jars, **settings) as broker:
        broker.wait_for_plugin()
        # given PIDs that fit into three quarters of the memory
        topic, held = ready_topic(broker, "orders"), range(MADE_UP, MADE_UP + 200)
        made_up_batches(broker, topic, held)
        events_of(broker, *held)
        with Hostile(broker, "mallory", "app") as mallory:
            # when the oldest and the newest are used again, then none is repeated
            for sequence, pid in ((1, MADE_UP), (1, held[-1]), (0, MADE_UP + 1000)):
                mallory.produce(topic, batch(pid, sequence=sequence))
        events_of(broker, MADE_UP + 1000)
        assert len(read_events(broker)) == len(held) + 1

        # and when many more PIDs follow, then each has an event, and the first one is repeated
        pids = range(MADE_UP + 2000, MADE_UP + 3000)
        for begin in range(0, len(pids), 100):
            made_up_batches(broker, topic, pids[begin : begin + 100])
            events_of(broker, *pids[begin : begin + 100])
        with Hostile(broker, "mallory", "app") as mallory:
            mallory.produce(topic, batch(MADE_UP, sequence=2))
        wait_for_events(broker, lambda event: event.producer_id == MADE_UP, lambda events: len(events) == 2)
        found = wait_for_report(broker, PluginState, lambda report: report.forgotten_pids > 0)
        assert found.dropped_events == 0


def test_a_flood_of_inits_is_written_within_its_bound(jars: Path, tmp_path: Path) -> None:
    requests = 500
    with LocalBroker(tmp_path, jars=jars, pid_quota_inits_per_second=5) as broker:
        broker.wait_for_plugin()
        with Hostile(broker, "mallory", "🦆" * 8000) as mallory:
            for _ in range(requests):
                mallory.init()
        topic = ready_topic(broker, "orders")
        made_up_batches(broker, topic, range(MADE_UP, MADE_UP + 1))
        events_of(broker, MADE_UP)
        dropped = wait_for_report(broker, AliveReport, lambda report: report.dropped_inits > 0).dropped_inits
        inits = reports_of(broker, InitReport)
    assert len(inits) + dropped == requests


def test_levels_that_are_set_at_run_time_silence_nothing(broker: LocalBroker) -> None:
    topic, name = ready_topic(broker, "orders"), "org.apache.kafka.storage.internals.log.ProducerStateManager"
    for level, pid in (("ERROR", MADE_UP + 200), ("TRACE", MADE_UP + 201), ("INFO", MADE_UP + 202)):
        set_logger(broker, name, level)
        made_up_batches(broker, topic, range(pid, pid + 1))
        assert len(events_of(broker, pid)) == 1


class WatchedLog(LocalBroker):
    """Its log settings are read again when their file changes, and hold a filter of their own."""

    def _java(self) -> Jvm:
        jvm = super()._java()
        file = Path(jvm.log_option.partition("=")[2])
        head = "Configuration:\n  monitorInterval: 1\n  ThresholdFilter:\n    level: DEBUG\n    onMatch: NEUTRAL\n"
        file.write_text(file.read_text().replace("Configuration:\n", head, 1))
        return jvm


def test_new_log_settings_silence_nothing(jars: Path, tmp_path: Path) -> None:
    with WatchedLog(tmp_path, jars=jars) as broker:
        broker.wait_for_plugin()
        topic = ready_topic(broker, "orders")
        made_up_batches(broker, topic, range(MADE_UP, MADE_UP + 1))
        events_of(broker, MADE_UP)
        later_s = time.time() + 10
        os.utime(tmp_path / "log4j2.yaml", (later_s, later_s))
        wait_until(lambda: "the log settings changed" in broker.server_log.read_text(), "it notices")
        made_up_batches(broker, topic, range(MADE_UP + 1, MADE_UP + 2))
        events_of(broker, MADE_UP + 1)


class TakesAll(LocalBroker):
    """Its log takes what loggers let through, at any level."""

    def _java(self) -> Jvm:
        jvm = super()._java()
        file = Path(jvm.log_option.partition("=")[2])
        root, appender, last = file.read_text().partition("ref: KafkaAppender")
        file.write_text(root + appender + last.replace("level: INFO", "level: TRACE"))
        return jvm


def test_an_operators_trace_level_still_logs(jars: Path, tmp_path: Path) -> None:
    with TakesAll(tmp_path, jars=jars) as broker:
        broker.wait_for_plugin()
        topic, name = ready_topic(broker, "orders"), "org.apache.kafka.storage.internals.log.ProducerStateManager"
        made_up_batches(broker, topic, range(MADE_UP, MADE_UP + 1))
        set_logger(broker, name, "TRACE")
        made_up_batches(broker, topic, range(MADE_UP + 1, MADE_UP + 2))
        events_of(broker, MADE_UP, MADE_UP + 1)
        logged = broker.server_log.read_text()
    assert f"Updated producer {MADE_UP + 1} " in logged
    assert "pid-quota looks" not in logged
    assert f"Updated producer {MADE_UP} " not in logged


class WithoutJar(LocalBroker):
    """The line is in its server.properties; the jar is not on its class path."""

    def _java(self) -> Jvm:
        return replace(super()._java(), more_jars=())


def test_a_broker_that_lacks_the_jar_does_not_start_and_names_the_plugin(jars: Path, tmp_path: Path) -> None:
    broker = WithoutJar(tmp_path, jars=jars)
    with pytest.raises(BrokerStartError):
        broker.start()
    assert "Class pidquota.Reporter cannot be found" in broker.server_log.read_text()


def test_a_kafka_without_the_accessor_is_named_and_a_wrong_value_too(jars: Path, tmp_path: Path) -> None:
    sets = ensure_jars(jars)
    clients = [jar for jar in sets.kafka if jar.name.startswith(("kafka-clients", "kafka-storage", "log4j", "slf4j"))]
    source = tmp_path / "Configure.java"
    source.write_text("""
        public class Configure {
            public static void main(String[] arguments) throws Exception {
                org.apache.kafka.common.metrics.MetricsReporter reporter = new pidquota.Reporter();
                reporter.configure(java.util.Map.of("node.id", 7, "process.roles", "broker",
                    "log.dirs", arguments[0], "pid.quota.repeat.ms", "x"));
                Thread.sleep(1500);
                reporter.close();
            }
        }""")
    classpath = os.pathsep.join(map(str, [*clients, broker_jar(jars)]))
    command = [find_java(), "-cp", classpath, str(source), str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT_S)

    told = done.stdout + done.stderr
    assert "pid.quota.repeat.ms=x is not a whole number" in told
    assert "using 30000" in told
    (line,) = [line for line in told.splitlines() if "can't watch Kafka" in line]
    assert "KafkaRequestHandler" in line
    assert "\tat " not in told


def test_the_server_log_lacks_what_a_hold_holds_back_until_the_plugin_is_taken_out(jars: Path, tmp_path: Path) -> None:
    with LocalBroker(tmp_path, jars=jars, holds=True) as broker:
        broker.wait_for_plugin()
        holds = HoldWriter(broker)
        with Asker(broker) as mallory, Asker(broker, "alice") as alice:
            wait_until(lambda: alice.error() == 0, "alice gets a PID")
            holds.hold()
            wait_until(lambda: mallory.error() == LOADING, "mallory is held")
            switch(broker, on=False)
            last = wait_for_report(broker, StopReport, lambda _: True)
            # The authorizer needs no Reporter to hold.
            assert mallory.error() == LOADING
        logged = broker.server_log.read_text()

    assert not last.shutdown
    assert last.has_authorizer
    held, _, after = logged.partition("metric.reporters = [org.apache.kafka.common.metrics.JmxReporter]")
    assert after
    assert "holds back new producer ids" not in held
    assert "holds back new producer ids" in after


def test_no_request_is_kept_after_its_answer(jars: Path, tmp_path: Path) -> None:
    # given a client that sends a large header
    large = 64 << 20
    with LocalBroker(tmp_path, jars=jars, num_io_threads=1) as broker:
        broker.wait_for_plugin()
        topic = ready_topic(broker, "orders")
        with Hostile(broker, "mallory") as mallory:
            made_up_batches(broker, topic, range(MADE_UP + 400, MADE_UP + 401))
            before = heap_bytes(broker)

            # when the broker has answered it, and nobody sends another
            mallory.produce_tagged(topic, batch(MADE_UP + 401), bytes(large))
            events_of(broker, MADE_UP + 401)

        # then the thread that worked for it holds nothing of it
        wait_until(lambda: heap_bytes(broker) < before + large // 2, "the request is gone")

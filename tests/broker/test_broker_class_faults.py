import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from broker.errors import BrokerStartError
from broker.local.local_broker import LocalBroker
from broker.local.server_process import Jvm
from jvm.broker_jar import broker_jar
from jvm.jar_sets import ensure_jars
from jvm.java import find_java
from tests.kits.broker_kit import LIMIT_S, wait_until
from tests.kits.class_kit import batches_of, lines_of, ready_topic, set_logger, switch
from tests.kits.hold_kit import LOADING, Asker, bound, hold
from tests.kits.hostile_kit import Hostile, batch
from wire.broker_lines import BatchLine, BrokerLine, ClassState, InitLine, StartLine, StopLine, decode_line

MADE_UP = 5_000_000_000


def made_up_batches(broker: LocalBroker, topic: str, pids: range, client_id: str = "app") -> None:
    with Hostile(broker, "mallory", client_id) as mallory:
        for pid in pids:
            mallory.produce(topic, batch(pid))


def newest_state(broker: LocalBroker) -> ClassState:
    return [line for line in lines_of(broker) if isinstance(line, ClassState)][-1]


def gaps(lines: list[BrokerLine]) -> int:
    """How many numbers are missing."""
    pairs = pairwise(lines)
    return sum(after.number - before.number - 1 for before, after in pairs if not isinstance(after, StartLine))


def heap_bytes(broker: LocalBroker) -> int:
    """What is reachable in a broker's heap."""
    command = [find_java(), "-m", "jdk.jcmd/sun.tools.jcmd.JCmd", str(broker.pid), "GC.class_histogram"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    return int(done.stdout.split()[-1])


def test_a_line_that_a_kill_tore_is_closed_by_the_next_run(jars: Path, tmp_path: Path) -> None:
    with LocalBroker(tmp_path, jars=jars) as broker:
        topic = ready_topic(broker, "orders")
        made_up_batches(broker, topic, range(MADE_UP, MADE_UP + 3))
        batches_of(broker, *range(MADE_UP, MADE_UP + 3))
        broker.kill()
        with broker.log_file.open("ab") as file:
            file.write(b'{"type":"batch","number":99,"times')
        broker.start()
        wait_until(lambda: broker.log_file.read_bytes().count(b'"type":"start"') == 2, "the second run")

    lines = broker.log_file.read_bytes().splitlines()
    assert lines.count(b'{"type":"batch","number":99,"times') == 1
    (begin,) = [index for index, line in enumerate(lines) if line.endswith(b'"times')]
    assert isinstance(decode_line(lines[begin + 1]), StartLine)


def test_a_file_that_vanishes_is_made_anew_and_the_loss_shows(broker: LocalBroker) -> None:
    topic = ready_topic(broker, "orders")
    made_up_batches(broker, topic, range(MADE_UP, MADE_UP + 3))
    batches_of(broker, MADE_UP)
    before = lines_of(broker)[-1].number
    broker.log_file.unlink()
    made_up_batches(broker, topic, range(MADE_UP + 10, MADE_UP + 13))

    wait_until(broker.log_file.exists, "a new file")
    batches_of(broker, *range(MADE_UP + 10, MADE_UP + 13))
    assert lines_of(broker)[0].number > before


def test_lines_go_to_the_end_of_a_file_that_others_truncate(broker: LocalBroker) -> None:
    topic = ready_topic(broker, "orders")
    made_up_batches(broker, topic, range(MADE_UP + 300, MADE_UP + 303))
    batches_of(broker, MADE_UP + 302)
    with broker.log_file.open("r+b") as file:
        file.truncate()
    made_up_batches(broker, topic, range(MADE_UP + 310, MADE_UP + 313))

    batches_of(broker, *range(MADE_UP + 310, MADE_UP + 313))
    assert b"\0" not in broker.log_file.read_bytes()


def test_files_rotate_within_their_bound(jars: Path, tmp_path: Path) -> None:
    with LocalBroker(tmp_path, jars=jars, pid_quota_file_bytes=20_000, pid_quota_file_count=2) as broker:
        topic, pids = ready_topic(broker, "orders"), range(MADE_UP, MADE_UP + 500)
        made_up_batches(broker, topic, pids)

        def last() -> set[int]:
            return {line.producer_id for line in lines_of(broker) if isinstance(line, BatchLine)}

        wait_until(lambda: pids[-1] in last(), "the last one")
        files = list(tmp_path.glob("pid-quota-broker.log*"))
        assert sorted(file.name.removeprefix("pid-quota-broker.log") for file in files) == ["", ".1", ".2", ".lock"]
        assert sum(file.stat().st_size for file in files) <= 3 * 25_000
        assert gaps(lines_of(broker)) == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a file system can't be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_costs_lines_and_nothing_else(jars: Path, tmp_path: Path, small_disk: Path) -> None:
    file = small_disk / "lines"
    with LocalBroker(tmp_path / "kafka", jars=jars, pid_quota_file=str(file)) as broker:
        topic, pids = ready_topic(broker, "orders"), range(MADE_UP, MADE_UP + 1000)
        filler = small_disk / "filler"
        filler.write_bytes(bytes(100_000))
        made_up_batches(broker, topic, pids)
        time.sleep(1)
        held = [decode_line(line) for line in file.read_bytes().splitlines()]
        assert len(held) < len(pids)
        filler.unlink()
        file.unlink()
        made_up_batches(broker, topic, range(MADE_UP + 5000, MADE_UP + 5003))
        wait_until(lambda: file.exists() and b'"alive"' in file.read_bytes(), "lines again")
        after = [decode_line(line) for line in file.read_bytes().splitlines()]
    assert after[0].number > held[-1].number + 1
    (alive, *_) = [line for line in after if isinstance(line, ClassState)]
    assert alive.dropped_lines > 0
    assert alive.errors == 0


def test_a_second_broker_on_the_file_writes_nothing_and_says_so(
    broker: LocalBroker, jars: Path, tmp_path: Path
) -> None:
    with LocalBroker(tmp_path, jars=jars, pid_quota_file=str(broker.log_file)) as second:
        topic = ready_topic(second, "orders")
        made_up_batches(second, topic, range(MADE_UP + 100, MADE_UP + 103))
        wait_until(lambda: "another broker writes it" in second.server_log.read_text(), "it says so")
        runs = {line.run for line in lines_of(broker) if isinstance(line, ClassState)}

    assert len(runs) == 1
    assert not [line for line in lines_of(broker) if isinstance(line, BatchLine) and line.topic == topic]


def test_a_small_memory_repeats_lines_that_it_no_longer_holds_and_loses_none(jars: Path, tmp_path: Path) -> None:
    with LocalBroker(tmp_path, jars=jars, pid_quota_memory_bytes=65_536, pid_quota_tick_ms=3_600_000) as broker:
        # given more ids than half of the memory holds, and fewer than all of it
        topic, held = ready_topic(broker, "orders"), range(MADE_UP, MADE_UP + 250)
        made_up_batches(broker, topic, held)
        with Hostile(broker, "mallory", "app") as mallory:
            # when the oldest and the newest are used again, then none is repeated
            for sequence, pid in ((1, MADE_UP), (1, held[-1]), (0, MADE_UP + 1000)):
                mallory.produce(topic, batch(pid, sequence=sequence))
        batches_of(broker, MADE_UP + 1000)
        assert len(batches_of(broker, *held)) == len(held)

        # and when many more ids follow, then the first one is repeated
        pids = range(MADE_UP + 2000, MADE_UP + 3000)
        made_up_batches(broker, topic, pids)
        assert len(batches_of(broker, *pids)) == len(pids)
        with Hostile(broker, "mallory", "app") as mallory:
            mallory.produce(topic, batch(MADE_UP, sequence=2))

        def of_first() -> int:
            lines = [line for line in lines_of(broker) if isinstance(line, BatchLine)]
            return sum(line.producer_id == MADE_UP for line in lines)

        wait_until(lambda: of_first() == 2, "the first one again")
        wait_until(lambda: newest_state(broker).forgotten_ticks > 0, "it says so")


def test_a_flood_of_inits_is_written_within_its_bound(jars: Path, tmp_path: Path) -> None:
    requests = 500
    bounded = LocalBroker(tmp_path, jars=jars, pid_quota_inits_per_second=5, pid_quota_file_bytes=100_000)
    with bounded as broker, Hostile(broker, "mallory", "🦆" * 8000) as mallory:
        for _ in range(requests):
            mallory.init()
        wait_until(lambda: newest_state(broker).dropped_inits > 0, "it says so")
        inits = [line for line in lines_of(broker) if isinstance(line, InitLine)]
        topic = ready_topic(broker, "orders")
        made_up_batches(broker, topic, range(MADE_UP, MADE_UP + 1))
        batches_of(broker, MADE_UP)
    assert len(inits) + newest_state(broker).dropped_inits == requests


def test_levels_that_are_set_at_run_time_silence_nothing(broker: LocalBroker) -> None:
    topic, name = ready_topic(broker, "orders"), "org.apache.kafka.storage.internals.log.ProducerStateManager"
    for level, pid in (("ERROR", MADE_UP + 200), ("TRACE", MADE_UP + 201), ("INFO", MADE_UP + 202)):
        set_logger(broker, name, level)
        made_up_batches(broker, topic, range(pid, pid + 1))
        assert len(batches_of(broker, pid)) == 1


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
        topic = ready_topic(broker, "orders")
        made_up_batches(broker, topic, range(MADE_UP, MADE_UP + 1))
        batches_of(broker, MADE_UP)
        later_s = time.time() + 10
        os.utime(tmp_path / "log4j2.yaml", (later_s, later_s))
        wait_until(lambda: "the log settings changed" in broker.server_log.read_text(), "it notices")
        made_up_batches(broker, topic, range(MADE_UP + 1, MADE_UP + 2))
        batches_of(broker, MADE_UP + 1)
        assert gaps(lines_of(broker)) > 0


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
        topic, name = ready_topic(broker, "orders"), "org.apache.kafka.storage.internals.log.ProducerStateManager"
        made_up_batches(broker, topic, range(MADE_UP, MADE_UP + 1))
        set_logger(broker, name, "TRACE")
        made_up_batches(broker, topic, range(MADE_UP + 1, MADE_UP + 2))
        batches_of(broker, MADE_UP, MADE_UP + 1)
        logged = broker.server_log.read_text()
    assert f"Updated producer {MADE_UP + 1} " in logged
    assert "pid-quota looks" not in logged
    assert f"Updated producer {MADE_UP} " not in logged


class WithoutJar(LocalBroker):
    """The line is in its server.properties; the jar is not on its class path."""

    def _java(self) -> Jvm:
        return replace(super()._java(), more_jars=())


def test_a_broker_that_lacks_the_jar_does_not_start_and_names_the_class(jars: Path, tmp_path: Path) -> None:
    broker = WithoutJar(tmp_path, jars=jars)
    with pytest.raises(BrokerStartError):
        broker.start()
    assert "Class pidquota.Reporter cannot be found" in broker.server_log.read_text()


def test_a_kafka_without_the_accessor_is_named_and_nothing_is_written(jars: Path, tmp_path: Path) -> None:
    sets = ensure_jars(jars)
    clients = [jar for jar in sets.kafka if jar.name.startswith(("kafka-clients", "kafka-storage", "log4j", "slf4j"))]
    source = tmp_path / "Configure.java"
    source.write_text("""
        public class Configure {
            public static void main(String[] arguments) throws Exception {
                org.apache.kafka.common.metrics.MetricsReporter reporter = new pidquota.Reporter();
                reporter.configure(java.util.Map.of(
                    "node.id", 7, "pid.quota.file", arguments[0], "pid.quota.tick.ms", "x"));
                Thread.sleep(1500);
                reporter.close();
            }
        }""")
    file = tmp_path / "lines"
    classpath = os.pathsep.join(map(str, [*clients, broker_jar(jars)]))
    subprocess.run([find_java(), "-cp", classpath, str(source), str(file)], check=True, timeout=LIMIT_S)

    start, *_, stop = [decode_line(line) for line in file.read_bytes().splitlines()]
    assert isinstance(start, StartLine)
    assert "KafkaRequestHandler" in (start.problem or "")
    assert (start.broker_id, start.tick_ms, stop.number) == (7, 10_000, 2)


def test_the_server_log_lacks_what_a_hold_holds_back_until_the_class_is_taken_out(jars: Path, tmp_path: Path) -> None:
    with LocalBroker(tmp_path, jars=jars, holds=True) as broker:
        with bound(broker, hold(60)), Asker(broker) as mallory:
            wait_until(lambda: mallory.error() == LOADING, "mallory is held")
        switch(broker, on=False)
        wait_until(lambda: isinstance(lines_of(broker)[-1], StopLine), "it is out")
        last = newest_state(broker)
        with bound(broker, hold(60)), Asker(broker) as mallory:
            wait_until(lambda: mallory.error() == LOADING, "mallory is held")
        logged = broker.server_log.read_text()

    assert isinstance(last, StopLine)
    assert not last.shutdown
    held, _, after = logged.partition("metric.reporters = [org.apache.kafka.common.metrics.JmxReporter]")
    assert after
    assert "holds back new producer ids" not in held
    assert "holds back new producer ids" in after


def test_no_request_is_kept_after_its_answer(jars: Path, tmp_path: Path) -> None:
    # given a client that sends a large header
    large = 64 << 20
    with LocalBroker(tmp_path, jars=jars, num_io_threads=1) as broker:
        topic = ready_topic(broker, "orders")
        with Hostile(broker, "mallory") as mallory:
            made_up_batches(broker, topic, range(MADE_UP + 400, MADE_UP + 401))
            before = heap_bytes(broker)

            # when the broker has answered it, and nobody sends another
            mallory.produce_tagged(topic, batch(MADE_UP + 401), bytes(large))
            batches_of(broker, MADE_UP + 401)

        # then the thread that worked for it holds nothing of it
        wait_until(lambda: heap_bytes(broker) < before + large // 2, "the request is gone")

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from broker.errors import BrokerStartError, LocalBrokerError, PortTakenError
from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import (
    end_offset,
    ensure_topics,
    new_topic,
    produce,
    read_records,
    reports_of,
    restart,
    wait_until,
)
from tests.kits.plugin_kit import NO_PLUGIN
from tests.kits.process_kit import processes_naming
from wire.plugin_reports import StartReport
from wire.topics import PRODUCE_EVENTS, REPORTS


def test_an_unknown_user_is_named_with_the_known_ones(broker: LocalBroker) -> None:
    with pytest.raises(LocalBrokerError, match=r"no user 'bob' on this broker .users: admin, alice, mallory"):
        broker.client_config("bob")


def test_passwords_are_shown_nowhere(broker: LocalBroker) -> None:
    assert "alice-secret" not in repr(broker)
    assert broker.properties.stat().st_mode & 0o077 == 0
    assert b"alice-secret" not in broker.server_log.read_bytes()
    for topic in (PRODUCE_EVENTS, REPORTS):
        assert not any(b"alice-secret" in value for _, value in read_records(broker, topic))


def test_a_plugin_that_does_not_report_is_an_error(jars: Path, tmp_path: Path) -> None:
    with LocalBroker(tmp_path, jars=jars, metric_reporters=NO_PLUGIN) as broker:
        missing = "no topic pid-quota-holds, pid-quota-reports, produce-events"
        with pytest.raises(LocalBrokerError, match=rf"within 0\.5 s \({missing}\)"):
            broker.wait_for_plugin(timeout_s=0.5)
        ensure_topics(broker.admin_config())
        with pytest.raises(LocalBrokerError, match=r"no report of broker 1"):
            broker.wait_for_plugin(timeout_s=0.5)


def test_a_report_of_an_earlier_run_does_not_count(jars: Path, tmp_path: Path) -> None:
    with LocalBroker(tmp_path, jars=jars) as broker:
        broker.wait_for_plugin()
        first = reports_of(broker, StartReport)
        restart(broker)
        broker.wait_for_plugin()
        assert len(reports_of(broker, StartReport)) == len(first) + 1


def test_data_survives_a_crash_and_nothing_survives_the_block(jars: Path, tmp_path: Path) -> None:
    folder = tmp_path / "kafka"
    odd = {"alice": 'q"u\\o te;ü=#'}

    def use_it_then_fail() -> None:
        with LocalBroker(folder, odd, jars=jars, num_partitions=3) as broker:
            address = broker.bootstrap_servers
            topic = new_topic(broker, "orders")
            produce(broker.client_config("alice"), topic)
            broker.kill()
            assert broker.pid is None
            restart(broker)
            assert broker.bootstrap_servers == address
            assert end_offset(broker, topic) == 1
            assert broker.pid in processes_naming(folder)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        use_it_then_fail()
    wait_until(lambda: processes_naming(folder) == [], "all processes gone")


def test_the_broker_dies_with_a_killed_parent(jars: Path, tmp_path: Path) -> None:
    folder = tmp_path / "kafka"
    program = (
        "import pathlib, sys, time; from broker.local.local_broker import LocalBroker\n"
        "with LocalBroker(pathlib.Path(sys.argv[1]), jars=pathlib.Path(sys.argv[2])):\n"
        "    print('up', flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, folder, jars], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"up\n"
    assert len(processes_naming(folder)) >= 2

    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()

    wait_until(lambda: processes_naming(folder) == [], "the broker gone")


def test_a_taken_port_is_named_and_nothing_stays_behind(jars: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(PortTakenError, match=rf"{port}.*is taken: stop its owner or choose another port"):
            LocalBroker(tmp_path / "kafka", jars=jars, port=port).start()

    wait_until(lambda: processes_naming(tmp_path / "kafka") == [], "all processes gone")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems let no second socket bind a port")
def test_the_system_gives_a_broker_s_port_to_nobody_else_while_it_is_killed(jars: Path, tmp_path: Path) -> None:
    with LocalBroker(tmp_path / "kafka", jars=jars) as broker:
        port = int(broker.admin_servers.partition(":")[2])
        broker.kill()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        broker.start()


def test_a_setting_the_broker_refuses_is_quoted(jars: Path, tmp_path: Path) -> None:
    with pytest.raises(BrokerStartError, match=r"log\.retention\.hours"):
        LocalBroker(tmp_path / "kafka", jars=jars, log_retention_hours="soon").start()

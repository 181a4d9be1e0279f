"""The plugin on nodes with one role: a broker writes, and a controller does nothing."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from broker.kafka.tail import TopicReader
from broker.local.plugin_wait import wait_for_plugins
from broker.local.server_files import HOST, Ports, server_properties_of, write_log_settings, write_server_properties
from broker.local.server_process import Jvm, ServerProcess, free_ports, new_cluster_id
from jvm.broker_jar import broker_jar
from jvm.jar_sets import kafka_classpath
from tests.kits.broker_kit import LIMIT_S, wait_until
from wire.plugin_reports import HoldReport, Report, parse_report
from wire.topics import REPORTS

CONTROLLER, BROKER = 1, 2


def launched(
    folder: Path, node: int, ports: Ports, voter: Ports, cluster_id: str, **properties: object
) -> ServerProcess:
    folder.mkdir()
    server = ServerProcess(folder)
    extra = server_properties_of(properties, holds=True)
    voters = {CONTROLLER: voter.controller}
    write_server_properties(server.properties, ports, {}, extra, node_id=node, controllers=voters)
    jvm = Jvm(kafka_classpath(), f"-Dlog4j2.configurationFile={write_log_settings(folder)}", (broker_jar(),))
    server.format(jvm, cluster_id)
    server.launch(jvm)
    return server


@pytest.mark.slow
def test_a_controller_writes_nothing_and_a_broker_without_that_role_does(tmp_path: Path) -> None:
    of_controller, of_broker = free_ports(2)
    only = f"CONTROLLER://{HOST}:{of_controller.controller}"
    clients = f"CLIENTS://{HOST}:{of_broker.clients},INNER://{HOST}:{of_broker.inner}"
    roles = {"process_roles": "controller", "listeners": only, "advertised_listeners": only}
    cluster_id = new_cluster_id()
    with ExitStack() as stack:
        controller = launched(tmp_path / "controller", CONTROLLER, of_controller, of_controller, cluster_id, **roles)
        stack.callback(controller.kill)
        own = {"process_roles": "broker", "listeners": clients, "advertised_listeners": clients}
        broker = launched(tmp_path / "broker", BROKER, of_broker, of_controller, cluster_id, **own)
        stack.callback(broker.kill)
        broker.wait_until_ready(of_broker)

        admin = {"bootstrap.servers": f"{HOST}:{of_broker.inner}"}
        wait_for_plugins(admin, [BROKER], broker.launched_ms, LIMIT_S)

        reports: list[Report | None] = []

        def follows_holds() -> bool:
            reports.extend(parse_report(each.value()) for each in records.poll(0.1))
            return any(isinstance(each, HoldReport) for each in reports)

        with TopicReader(admin, REPORTS) as records:
            wait_until(follows_holds, "the broker has read the topic of holds")
        assert {each.broker_id for each in reports if each} == {BROKER}
        assert "(pidquota." not in controller.server_log.read_text()
        assert not (tmp_path / "controller" / "data" / "pid-quota.state").exists()
        assert (tmp_path / "broker" / "data" / "pid-quota.state").exists()

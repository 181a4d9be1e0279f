"""Measures what the plugin costs a broker.

    .venv/bin/python bench/plugin_cost.py --brokers 5 --rounds 5
    .venv/bin/python bench/plugin_cost.py --rounds 0             # only the heap

Brokers in two forms run at the same time: without the plugin ("off") and with it ("on"). They take turns at the same
load, in both orders, so that other load affects all of them alike. A broker's figures are medians of its rounds, and a
form's figures are means of its brokers. Ratios are relative to the brokers without the plugin. `..._spread` has the
ratios of a form's lowest and highest broker, because each JVM compiles differently. The broker's own CPU time per
request varies least, because clients share the cores. Compiler threads do not count, and each broker warms up first.

Then a broker of each form gets a million PIDs, and `heap` has the heap of both after a full collection. The last line
is JSON.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench import plugin_heap
from bench.plugin_loads import LOADS, Figures, Target, ratios_of
from broker.local.server_files import HOST, Ports, server_properties_of, write_log_settings, write_server_properties
from broker.local.server_process import Jvm, ServerProcess, free_ports, new_cluster_id
from jvm.broker_jar import broker_jar
from jvm.jar_sets import ensure_jars, kafka_classpath

TOPIC = "orders"
FORMS: dict[str, dict[str, object]] = {
    "off": {"metric_reporters": "org.apache.kafka.common.metrics.JmxReporter"},
    "on": {},
}
"""Server properties of each form."""


@dataclass(frozen=True)
class BenchBroker:
    """A broker of a form."""

    form: str
    server: ServerProcess
    ports: Ports

    @property
    def target(self) -> Target:
        """Where a load sends its requests, and the process whose CPU time counts."""
        return Target(HOST, self.ports.inner, TOPIC, self.server.pid or 0)

    def counters(self) -> dict[str, int]:
        """Return what the plugin says of its events once it has delivered all."""
        state = plugin_heap.state_when_delivered({"bootstrap.servers": f"{HOST}:{self.ports.inner}"})
        return {"events": state.events, "dropped_events": state.dropped_events, "dropped_inits": state.dropped_inits}


@contextlib.contextmanager
def brokers(folder: Path, number: int, partitions: int, heap_mb: int = 512) -> Iterator[list[BenchBroker]]:
    """Run `number` brokers of each form, in turns. The topic has `partitions` partitions."""
    ensure_jars()
    with contextlib.ExitStack() as stack:
        found: list[BenchBroker] = []
        forms = [form for _ in range(number) for form in FORMS]
        for form, ports in zip(forms, free_ports(len(forms)), strict=True):
            server = start(folder / f"broker-{len(found)}", form, ports, heap_mb)
            stack.callback(server.kill)
            admin = AdminClient({"bootstrap.servers": f"{HOST}:{ports.inner}", "log_level": 0})
            admin.create_topics([NewTopic(TOPIC, partitions, 1)])[TOPIC].result()
            found.append(BenchBroker(form, server, ports))
        yield found


def start(folder: Path, form: str, ports: Ports, heap_mb: int) -> ServerProcess:
    """Start a broker, and wait until it answers."""
    folder.mkdir()
    server = ServerProcess(folder)
    write_server_properties(server.properties, ports, {"alice": "a"}, server_properties_of(FORMS[form], holds=False))
    log_option = f"-Dlog4j2.configurationFile={write_log_settings(folder)}"
    jvm = Jvm(kafka_classpath(), log_option, (broker_jar(),), heap_mb)
    server.format(jvm, new_cluster_id())
    server.launch(jvm)
    server.wait_until_ready(ports)
    return server


def rates(asked: argparse.Namespace) -> dict[str, object]:
    """Return each load's figures, and what the plugins say of their events."""
    results = {}
    with tempfile.TemporaryDirectory() as folder, brokers(Path(folder), asked.brokers, asked.partitions) as found:
        for name, load in LOADS.items():
            runs = [load(each.target, asked.partitions) for each in found]
            rounds: list[list[Figures]] = [[] for _ in found]
            for run in runs:
                run(asked.warm_up)
            for number in range(asked.rounds):
                for at in range(len(found)) if number % 2 else reversed(range(len(found))):
                    rounds[at].append(runs[at](asked.seconds))
                print(f"{name}: round {number + 1} of {asked.rounds}", file=sys.stderr)
            by_broker = list(zip(found, rounds, strict=True))
            results[name] = ratios_of({form: [own for each, own in by_broker if each.form == form] for form in FORMS})
        counters = [each.counters() for each in found if each.form == "on"]
    return {"results": results, "plugins": counters}


def heap(pids: int) -> dict[str, float]:
    """Return the heap of a broker of each form that has `pids` PIDs."""
    measured: dict[str, float] = {"pids": pids}
    with (
        tempfile.TemporaryDirectory() as folder,
        brokers(Path(folder), 1, plugin_heap.PARTITIONS, plugin_heap.HEAP_MB) as found,
    ):
        for each in found:
            plugin_heap.fill(each.target, pids)
            print(f"{each.form}: {pids:,} PIDs written", file=sys.stderr)
            if each.form == "on":
                measured |= each.counters()
            measured[f"{each.form}_mb"] = plugin_heap.live_heap_mb(each.target.pid)
    measured["plugin_mb"] = round(measured["on_mb"] - measured["off_mb"], 1)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds of load per broker, kind of load and round")
    parser.add_argument("--warm-up", type=float, default=16.0, help="seconds of warm-up per broker and kind of load")
    parser.add_argument("--rounds", type=int, default=8, help="rounds that count; 0 measures only the heap")
    parser.add_argument("--brokers", type=int, default=1, help="brokers per form")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--heap-pids", type=int, default=1_000_000, help="PIDs to measure the heap at; 0 skips that")
    asked = parser.parse_args()
    found: dict[str, object] = {"cores": os.cpu_count()}
    if asked.rounds:
        found |= rates(asked)
    if asked.heap_pids:
        found["heap"] = heap(asked.heap_pids)
    print(json.dumps(found))


if __name__ == "__main__":
    main()

"""Measures what the class costs a broker.

    .venv/bin/python bench/tap_cost.py --brokers 5 --rounds 6

Brokers in two forms run at the same time: without the class ("off") and with it ("on"). They take turns at the same
load, in both orders, so that other load affects all of them alike. A broker's figures are medians of its rounds, and a
form's figures are means of its brokers. Ratios are relative to the brokers without the class. `..._spread` has the
ratios of a form's lowest and highest broker, because each JVM compiles differently. The broker's own CPU time per
record varies least, because clients share the cores. Compiler threads do not count, and each broker warms up first. The
last line is JSON.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from broker.local.server_files import HOST, Ports, write_log_settings, write_server_properties
from broker.local.server_process import Jvm, ServerProcess, free_ports, new_cluster_id
from jvm.broker_jar import broker_jar
from jvm.jar_sets import ensure_jars, kafka_classpath
from wire.broker_lines import REPORTER_CLASS

TOPIC = "orders"
PARTITIONS = 4

LOADS = {
    # Each record makes its own request.
    "one-record requests": {"linger.ms": 0, "batch.num.messages": 1, "outstanding": 200},
    "batches (linger 5 ms, 100 B)": {"linger.ms": 5, "batch.num.messages": 10_000, "outstanding": 20_000},
}
FORMS = ("off", "on")
JMX = "org.apache.kafka.common.metrics.JmxReporter"
_TICKS = os.sysconf("SC_CLK_TCK")


def start(folder: Path, form: str, ports: Ports) -> ServerProcess:
    folder.mkdir()
    server = ServerProcess(folder)
    reporters = {"off": [JMX], "on": [JMX, REPORTER_CLASS]}[form]
    write_server_properties(server.properties, ports, {"alice": "a"}, {"metric.reporters": ",".join(reporters)})
    log_option = f"-Dlog4j2.configurationFile={write_log_settings(folder)}"
    jvm = Jvm(kafka_classpath(), log_option, (broker_jar(),))
    server.format(jvm, new_cluster_id())
    server.launch(jvm)
    server.wait_until_ready(ports)
    admin = AdminClient({"bootstrap.servers": f"{HOST}:{ports.inner}"})
    for created in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        created.result()
    return server


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a JVM's threads, except its compiler threads."""
    ticks = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):
            name, _, rest = (thread / "stat").read_text().rpartition(")")
            fields = rest.split()
            ticks += 0 if "CompilerThre" in name else int(fields[11]) + int(fields[12])
    return ticks / _TICKS


def load(ports: Ports, pid: int, kind: dict[str, int], seconds: float) -> dict[str, float]:
    """Keep a number of records outstanding for a while; return rate, latency and the broker's CPU time."""
    latencies: list[float] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            sys.exit(f"a record was refused: {error.str()}")
        latencies.append(message.latency() or 0.0)

    settings = {name: value for name, value in kind.items() if name != "outstanding"}
    producer = Producer(
        {"bootstrap.servers": f"{HOST}:{ports.inner}", "enable.idempotence": True, "log_level": 3, **settings}
    )
    producer.produce(TOPIC, b"x", partition=0)
    producer.flush()
    value, sent = b"x" * 100, 0
    cpu, began = cpu_seconds(pid), time.perf_counter()
    while time.perf_counter() - began < seconds:
        while sent - len(latencies) < kind["outstanding"]:
            producer.produce(TOPIC, value, partition=sent % PARTITIONS, on_delivery=delivered)
            sent += 1
        producer.poll(0.001)
    producer.flush()
    took = time.perf_counter() - began
    return {
        "records_per_second": sent / took,
        "p99_ms": 1000 * statistics.quantiles(latencies, n=100)[98],
        "broker_cpu_us_per_record": 1e6 * (cpu_seconds(pid) - cpu) / sent,
    }


def summary(runs: dict[str, list[list[dict[str, float]]]]) -> dict[str, dict[str, float | list[float]]]:
    """Return each form's figures, from the rounds of each of its brokers."""
    by_broker = {
        form: {name: [statistics.median(run[name] for run in one) for one in of_form] for name in of_form[0][0]}
        for form, of_form in runs.items()
    }
    means = {form: {name: statistics.mean(values) for name, values in each.items()} for form, each in by_broker.items()}
    found: dict[str, dict[str, float | list[float]]] = {}
    for form, each in by_broker.items():
        found[form] = {}
        for name, values in each.items():
            base = means["off"][name]
            found[form][name] = round(means[form][name], 2)
            found[form][f"{name}_ratio"] = round(means[form][name] / base, 3)
            found[form][f"{name}_spread"] = [round(bound / base, 3) for bound in (min(values), max(values))]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds of load per broker, kind of load and round")
    parser.add_argument("--warm-up", type=float, default=16.0, help="seconds of warm-up per broker and kind of load")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--brokers", type=int, default=1, help="brokers per form")
    chosen = parser.parse_args()
    ensure_jars()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        brokers = [(number, form) for number in range(chosen.brokers) for form in FORMS]
        ports = dict(zip(brokers, free_ports(len(brokers)), strict=True))
        servers = {}
        for each in brokers:
            number, form = each
            servers[each] = start(Path(folder) / f"{number}-{FORMS.index(form)}", form, ports[each])
            stack.callback(servers[each].kill)
        results = {}
        for name, kind in LOADS.items():
            for each in brokers:
                load(ports[each], servers[each].pid or 0, kind, chosen.warm_up)
            runs: dict[str, list[list[dict[str, float]]]] = {
                form: [[] for _ in range(chosen.brokers)] for form in FORMS
            }
            for round_number in range(chosen.rounds):
                for each in brokers if round_number % 2 else reversed(brokers):
                    figures = load(ports[each], servers[each].pid or 0, kind, chosen.seconds)
                    runs[each[1]][each[0]].append(figures)
                print(f"{name}: round {round_number + 1} of {chosen.rounds}", file=sys.stderr)
            results[name] = summary(runs)
        lines = {
            form: sum(1 for _ in servers[0, form].log_file.open("rb"))
            for form in FORMS
            if servers[0, form].log_file.exists()
        }
    print(json.dumps({"cores": os.cpu_count(), "results": results, "log_lines": lines}))


if __name__ == "__main__":
    main()

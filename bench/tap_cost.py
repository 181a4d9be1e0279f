"""What the tap's logging costs a broker: `python bench/tap_cost.py [--seconds 3] [--rounds 3]`, JSON on stdout.

One broker per form of logging, all up at once; the same load goes to one after the other, round after round, there
and back, so that whatever else the machine does hits all alike. Figures are medians over rounds, ratios are to the
broker without logging.
The broker's own CPU time per record is the steadiest of them: clients share the cores.
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

from broker.jars.jar_sets import ensure_jars, kafka_classpath
from broker.local.server_files import HOST, Ports, write_log_settings, write_server_properties
from broker.local.server_process import Jvm, ServerProcess, free_ports, new_cluster_id

DOCS = Path(__file__).parents[1] / "docs" / "broker-logging"
TOPIC = "orders"
PARTITIONS = 4

LOADS = {
    # Each record is a request of its own, and each request two lines.
    "one-record requests": {"linger.ms": 0, "batch.num.messages": 1, "outstanding": 200},
    "batches (linger 5 ms, 100 B)": {"linger.ms": 5, "batch.num.messages": 10_000, "outstanding": 20_000},
}
FORMS = ("off", "on", "on, unflushed", "on, async", "on, async, unflushed")
_TICKS = os.sysconf("SC_CLK_TCK")


def log_option(folder: Path, form: str) -> str:
    """The log settings of one form, as a JVM option."""
    server, tapped = write_log_settings(folder).split(",")
    files = [server]
    if form != "off":
        files.append(tapped)
    if "unflushed" in form:
        text = Path(tapped).read_text(encoding="utf-8")
        Path(tapped).write_text(text.replace("name: PidQuota\n", "name: PidQuota\n      immediateFlush: false\n", 1))
    if "async" in form:
        asynchronous = folder / "async.yaml"
        asynchronous.write_bytes((DOCS / "log4j2-pid-quota-async.yaml").read_bytes())
        files.append(str(asynchronous))
    return f"-Dlog4j2.configurationFile={','.join(files)}"


def start(folder: Path, form: str, ports: Ports) -> ServerProcess:
    folder.mkdir()
    server = ServerProcess(folder)
    write_server_properties(server.properties, ports, {"alice": "a"}, [], {})
    jvm = Jvm(kafka_classpath(), log_option(folder, form))
    server.format(jvm, new_cluster_id())
    server.launch(jvm)
    server.wait_until_ready(ports)
    admin = AdminClient({"bootstrap.servers": f"{HOST}:{ports.inner}"})
    for created in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        created.result()
    return server


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def load(ports: Ports, pid: int, kind: dict[str, int], seconds: float) -> dict[str, float]:
    """Keep so many records outstanding for a while."""
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


def summary(runs: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, float]]:
    medians = {
        form: {name: statistics.median(run[name] for run in of_form) for name in of_form[0]}
        for form, of_form in runs.items()
    }
    return {
        form: {name: round(value, 2) for name, value in of_form.items()}
        | {f"{name}_ratio": round(value / medians["off"][name], 3) for name, value in of_form.items()}
        for form, of_form in medians.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of load per broker, kind of load and round")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    ensure_jars()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        ports = dict(zip(FORMS, free_ports(len(FORMS)), strict=True))
        servers = {}
        for number, form in enumerate(FORMS):
            servers[form] = start(Path(folder) / str(number), form, ports[form])
            stack.callback(servers[form].kill)
        results = {}
        for name, kind in LOADS.items():
            runs: dict[str, list[dict[str, float]]] = {form: [] for form in FORMS}
            # Round 0 warms the JVMs up and is thrown away.
            for round_number in range(chosen.rounds + 1):
                for form in FORMS if round_number % 2 else reversed(FORMS):
                    figures = load(ports[form], servers[form].pid or 0, kind, chosen.seconds)
                    if round_number:
                        runs[form].append(figures)
                print(f"{name}: round {round_number} of {chosen.rounds}", file=sys.stderr)
            results[name] = summary(runs)
        lines = {form: sum(1 for _ in server.log_file.open("rb")) for form, server in servers.items() if form != "off"}
    print(json.dumps({"cores": os.cpu_count(), "results": results, "log_lines": lines}, indent=2))


if __name__ == "__main__":
    main()

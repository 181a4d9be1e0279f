"""The bundle's jobs as a workspace runs them: the wheel in a job's environment, each task by its entry point, in order.

The parameters are the YAML's, for `prod`. Instead of the workspace's there are local ones: catalog `spark_catalog` (a
Hive metastore in a folder), volumes as folders, one secret, a real broker. Spark is open source 4.0, Python is ours.
"""

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from broker.local.local_broker import LocalBroker
from jvm.process import run_to_end, start_watched
from tables.schema.specs import TABLES as TABLE_SPECS
from tests.kits.broker_kit import ensure_topics
from tests.kits.console_kit import wait_for
from tests.kits.databricks_kit import GIVEN, ROOT, load_bundle
from tests.kits.runtime_kit import LIMIT_S, Runtime, prepared_statements
from tests.kits.runtime_venv_kit import Cluster
from tests.kits.stream_command_kit import processes_below
from wire.topics import PRODUCE_EVENTS

if TYPE_CHECKING:
    from datetime import datetime

pytestmark = pytest.mark.slow

HERE = ROOT / "tests" / "bundle"
TABLES, REPLAYED = "spark_catalog.pid_quota", "spark_catalog.pid_quota_backfill"
COUNTS = """
SELECT principal, CAST(sum(admitted_pids) AS INT), CAST(sum(refused_pids) AS INT) FROM :tables.principal_metrics
WHERE principal IN ('User:bob', 'User:mallory') GROUP BY principal ORDER BY principal
"""
DECISIONS = "SELECT decision_id, principal, action, decided_at FROM :tables.throttle_decisions"
Ended = tuple[str, int, str]
"""A task, its exit code, and what it printed."""
COPY_QUOTAS = "INSERT INTO :replayed.producer_id_quotas SELECT * FROM :tables.producer_id_quotas"


@dataclass(frozen=True)
class Workspace:
    runtime: Runtime
    servers: str

    def parameters(self, job: str, task: str, **more: str) -> list[str]:
        given = GIVEN | {"catalog": "spark_catalog", "kafka_bootstrap_servers": self.servers} | more
        (found,) = [each for each in load_bundle("prod", given).job(job)["tasks"] if each["task_key"] == task]
        wheel = found["python_wheel_task"]
        local = [part.replace("/Volumes/", f"{self.runtime.root}/Volumes/") for part in wheel["parameters"]]
        return [wheel["package_name"], wheel["entry_point"], *local]

    def order(self, job: str) -> list[str]:
        """The tasks of a job, each after those it waits for."""
        tasks = load_bundle("prod").job(job)["tasks"]
        graph = {
            task["task_key"]: [before["task_key"] for before in task.get("depends_on", [])]
            for task in sorted(tasks, key=lambda task: task["task_key"])
        }
        return list(TopologicalSorter(graph).static_order())

    def run(self, job: str, task: str, **environment: str) -> tuple[int, str]:
        return run_to_end(self.command("task_run.py", *self.parameters(job, task), **environment), LIMIT_S)

    def command(self, program: str, *arguments: str, **environment: str) -> list[str]:
        settings = self.runtime.environment() | environment
        changed = [f"{name}={value}" for name, value in settings.items() if os.environ.get(name) != value]
        return [
            "/usr/bin/env",
            "-C",
            str(self.runtime.root),
            *changed,
            self.runtime.python,
            str(HERE / program),
            *arguments,
        ]

    def sql(self, *statements: str, tables: str = TABLES) -> list[list[Any]]:
        asked = [each.replace(":tables", tables).replace(":replayed", REPLAYED) for each in statements]
        code, printed = run_to_end(self.command("sql_run.py", *asked), LIMIT_S)
        assert code == 0, printed
        answer: list[list[Any]] = json.loads(printed.splitlines()[-1])
        return answer

    def rows(self, name: str) -> list[dict[str, Any]]:
        table = DeltaTable(str(self.runtime.root / "warehouse" / "pid_quota.db" / name))
        rows: list[dict[str, Any]] = table.to_pyarrow_table().to_pylist()
        return rows


@pytest.fixture(scope="module")
def kafka(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    # The tests write the events, so this broker has no plugin.
    with LocalBroker(tmp_path_factory.mktemp("kafka"), jars=jars, metric_reporters="") as broker:
        ensure_topics(broker.admin_config(), partitions=2)
        yield broker


@pytest.fixture(scope="module")
def workspace(runtime_cluster: Cluster, kafka: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    root = tmp_path_factory.mktemp("workspace") / "root"
    metastore = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={root}/metastore;create=true",
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
        # The defaults are for clusters: up to 10,000 tasks to list a folder of a few files, which VACUUM does.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    secret = load_bundle("prod").resources("secret_scopes")["kafka"]["name"] + "/kafka-client"
    runtime = Runtime(
        root, runtime_cluster.jars, runtime_cluster.python, settings=metastore, secret=secret, packages=()
    )
    return Workspace(runtime.prepared(), kafka.admin_servers)


class Stream:
    """The continuous job's one task; `lose` is what the end of its cluster is to it."""

    def __init__(self, workspace: Workspace, log: Path, **given: str) -> None:
        self.log = log
        parameters = workspace.parameters("stream", "stream", **given)
        self.process = start_watched(workspace.command("task_run.py", *parameters), log)

    def wait_for(self, condition: Callable[[], bool], what: str) -> bool:
        def asked() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            return condition()

        return wait_for(asked, what, LIMIT_S)

    def lose(self) -> None:
        victims = [self.process.pid, *processes_below(self.process.pid)]
        for pid in victims:
            # One that lost its parent may have ended by itself.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()
        wait_for(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in victims), "the end of the cluster")


@pytest.fixture(scope="module")
def history(workspace: Workspace, kafka: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> list[Ended]:
    """The whole life of a deployment, once: gives the exit codes and last lines of the tasks, in order."""
    folder = tmp_path_factory.mktemp("history")
    done: list[Ended] = []

    begun = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - begun:4.0f} s: {what}")

    def run(job: str, task: str) -> None:
        code, printed = workspace.run(job, task)
        say(f"{job}.{task} ended with {code}: {printed.splitlines()[-1] if printed.strip() else ''}")
        done.append((f"{job}.{task}", code, printed))

    # What `bundle deploy` makes.
    workspace.sql("CREATE SCHEMA :tables", "CREATE SCHEMA :replayed")
    check, first, *later = workspace.order("maintenance")
    run("maintenance", check)
    run("maintenance", first)
    merge = Path(prepared_statements(folder)).read_text(encoding="utf-8").split(";")[0]
    workspace.sql("USE :tables", merge)

    base_ms = time.time_ns() // 1_000_000 - 120_000
    produce(kafka, [(base_ms, "User:mallory", 1000 + number) for number in range(30)])
    stream = Stream(workspace, folder / "stream.log")
    stream.wait_for(lambda: decided(workspace), "the decision")
    say("stream.stream has decided")
    stream.lose()
    # Nobody listens meanwhile.
    produce(kafka, [(base_ms + 15_000, "User:mallory", 2000 + number) for number in range(5)])
    produce(kafka, [(base_ms + 15_000, "User:bob", 3000 + number) for number in range(3)])
    again = Stream(workspace, folder / "stream-again.log")
    again.wait_for(
        lambda: {"User:bob"} <= {row["principal"] for row in workspace.rows("producer_id_metrics")}, "bob's metrics"
    )
    again.wait_for(lambda: refused(workspace) == 14, "mallory's second flood")
    say("stream.stream, begun again, has done what came meanwhile")
    again.lose()

    run("backfill", "tables")
    workspace.sql(COPY_QUOTAS)
    run("backfill", "backfill")
    # The tables are there, and full.
    for task in later:
        run("maintenance", task)
    return done


def produce(broker: LocalBroker, events: list[tuple[int, str, int]]) -> None:
    producer = Producer({"bootstrap.servers": broker.admin_servers, "log_level": 0})
    for at_ms, principal, pid in events:
        event = {"timestamp_ms": at_ms, "principal": principal, "after_ms": [0], "producer_ids": [pid]}
        producer.produce(PRODUCE_EVENTS, json.dumps(event), principal)
    assert producer.flush(60) == 0


def decided(workspace: Workspace) -> bool:
    folder = workspace.runtime.root / "warehouse" / "pid_quota.db" / "throttle_decisions" / "_delta_log"
    return folder.is_dir() and bool(workspace.rows("throttle_decisions"))


def refused(workspace: Workspace) -> int:
    newest: dict[datetime, int] = {}
    for row in sorted(workspace.rows("producer_id_metrics"), key=lambda row: (row["as_of"], row["batch_id"])):
        if row["principal"] == "User:mallory":
            newest[row["window_end"]] = row["refused_pids"]
    return sum(newest.values())


def test_every_task_ends_well_in_the_order_of_its_job(history: list[Ended]) -> None:
    failed = {name: printed.splitlines()[-1] for name, code, printed in history if code != 0}
    # Two need Databricks' own SQL: open source Spark 4.0 has no ANALYZE for Delta, the last thing that upkeep does to a
    # table, and no metric views, which 4.2 makes in another test.
    assert list(failed) == ["maintenance.maintain", "maintenance.metric_views"]
    refused = failed["maintenance.maintain"].split("; ")
    assert all("ANALYZE TABLE is not supported" in each for each in refused)
    assert len(refused) == len(TABLE_SPECS)
    assert failed["maintenance.metric_views"].startswith("error: the catalog refused: [PARSE_SYNTAX_ERROR]")
    assert [name for name, _, _ in history] == [
        "maintenance.check",
        "maintenance.tables",
        "backfill.tables",
        "backfill.backfill",
        "maintenance.maintain",
        "maintenance.metric_views",
    ]


def test_no_event_is_lost_or_counted_twice_when_the_cluster_is(history: list[Ended], workspace: Workspace) -> None:
    assert workspace.sql(COUNTS) == [["User:bob", 3, 0], ["User:mallory", 21, 14]]
    (decision,) = workspace.rows("throttle_decisions")
    assert (decision["principal"], decision["action"], decision["quota"]) == ("User:mallory", "THROTTLE", 20.0)


def test_the_backfill_decides_as_the_stream_did(history: list[Ended], workspace: Workspace) -> None:
    assert workspace.sql(DECISIONS, tables=REPLAYED) == workspace.sql(DECISIONS) != []
    assert workspace.sql(COUNTS, tables=REPLAYED) == workspace.sql(COUNTS)


def test_the_way_back_is_a_new_checkpoint_that_goes_on_where_the_rows_end(
    history: list[Ended], workspace: Workspace, kafka: LocalBroker, tmp_path: Path
) -> None:
    before = workspace.sql(COUNTS)
    produce(kafka, [(time.time_ns() // 1_000_000, "User:carol", 4000)])
    stream = Stream(workspace, tmp_path / "log", checkpoint="stream-2", new_checkpoint="--new-checkpoint")
    stream.wait_for(
        lambda: "User:carol" in {row["principal"] for row in workspace.rows("producer_id_metrics")}, "carol's metrics"
    )
    stream.lose()
    assert workspace.sql(COUNTS) == before


def test_the_wheel_replaces_no_library_of_the_runtime(runtime_cluster: Cluster) -> None:
    assert not runtime_cluster.runtime.keys() & runtime_cluster.installed.keys() - {"pip", "setuptools"}


def test_another_library_called_streaming_is_behind_ours(runtime_cluster: Cluster, history: list[Ended]) -> None:
    assert "mosaicml-streaming" in runtime_cluster.runtime
    assert any(name == "backfill.backfill" and code == 0 for name, code, _ in history)


def test_another_library_called_streaming_before_ours_is_named_in_one_line(
    workspace: Workspace, runtime_cluster: Cluster
) -> None:
    (runtime_packages,) = Path(runtime_cluster.python).parents[2].glob("runtime/lib/python*/site-packages")
    path = os.pathsep.join([str(workspace.runtime.root / "modules"), str(runtime_packages)])
    code, printed = workspace.run("stream", "stream", PYTHONPATH=path)
    assert code == 1
    assert len(printed.splitlines()) == 1
    assert f"'streaming' comes from {runtime_packages}/streaming/__init__.py (of mosaicml-streaming)" in printed


NOWHERE = {"--tables": "spark_catalog.nowhere"}


@pytest.mark.parametrize(
    ("job", "task", "changed", "said"),
    [
        (
            "stream",
            "stream",
            {"--command-config": "secret:pid-quota-prod/other"},
            "secret pid-quota-prod/other .* put-secret",
        ),
        ("stream", "stream", NOWHERE, "error: the catalog has no such schema: .* `databricks bundle deploy`"),
        ("maintenance", "tables", NOWHERE, "nowhere.*`databricks bundle deploy`"),
        ("maintenance", "maintain", NOWHERE, "nowhere.*`databricks bundle deploy`"),
    ],
    ids=["secret", "schema", "tables", "maintain"],
)
def test_a_missing_object_is_named_in_one_line_with_the_task_that_makes_it(
    workspace: Workspace, job: str, task: str, changed: dict[str, str], said: str
) -> None:
    package, point, *parameters = workspace.parameters(job, task)
    for option, value in changed.items():
        parameters[parameters.index(option) + 1] = value
    code, printed = run_to_end(workspace.command("task_run.py", package, point, *parameters), LIMIT_S)
    assert code == 1
    (line,) = [line for line in printed.splitlines() if line.startswith("error: ")]
    assert re.search(said, line)
    assert "Traceback" not in printed

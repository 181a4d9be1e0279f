"""The SQL for catalog tables, on a real Delta catalog: Spark's own, which is what comes nearest to Databricks here."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from broker.enforcement.model import EnforcementRecord, Lease, LeaseRecord, ReleaseOrder, Target
from broker.enforcement.store.catalog_tables import CatalogActions, CatalogDecisions, newest_write_ms
from broker.kafka.quota_entity import QuotaEntity
from streaming.commit.sinks import DeltaSink
from tables.quotas import quota_catalog
from tables.quotas.quota_entry import QuotaEntry
from tables.schema.ddl import catalog_table, row_schema
from tables.schema.specs import TABLES
from tables.store import catalog
from tables.store.base import Answer
from tables.store.engines import SparkEngine
from tables.store.upkeep import UpkeepPlan
from tables.times import to_ms

# Of a minute and a half most goes into making twelve tables by SQL.
pytestmark = pytest.mark.slow

SCHEMA = "spark_catalog.upkeep"
LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
NOW = datetime.now(timezone.utc)
METRICS = "producer_id_metrics"
QUOTAS = "producer_id_quotas"


@dataclass(frozen=True)
class WithoutAnalyze:
    """The engine but for ANALYZE TABLE, which Delta outside of Databricks does not have."""

    engine: SparkEngine

    def execute(self, statement: str, parameters: Mapping[str, object] | None = None) -> Answer:
        return Answer((), ()) if statement.startswith("ANALYZE") else self.engine.execute(statement, parameters)


@pytest.fixture(scope="module")
def spark(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    # VACUUM would list each folder by so many tasks.
    spark.conf.set(LISTING, 2)
    spark.sql(f"CREATE SCHEMA {SCHEMA} LOCATION '{tmp_path_factory.mktemp('upkeep')}'")
    yield spark
    spark.sql(f"DROP SCHEMA {SCHEMA} CASCADE")
    spark.conf.unset(LISTING)


@pytest.fixture(scope="module")
def engine(spark: SparkSession) -> WithoutAnalyze:
    made = WithoutAnalyze(SparkEngine(spark))
    for spec in TABLES.values():
        assert catalog.create(made, SCHEMA, spec, there=False) == 1 + len(spec.constraints)
    return made


def append(spark: SparkSession, name: str, batch_id: int, row: dict[str, object]) -> None:
    values = {column: row.get(column) for column in row_schema(name).names}
    DeltaSink(SCHEMA, "test").append(spark, pa.Table.from_pylist([values], row_schema(name)), name, batch_id)


def test_tables_are_made_with_comments_clusters_and_constraints(engine: WithoutAnalyze) -> None:
    for name, spec in TABLES.items():
        made = {column.name: column.comment for column in catalog.column_facts(engine, SCHEMA, spec)}
        assert made == {column.name: column.metadata[b"comment"].decode() for column in spec.schema}
        (detail,) = engine.execute(f"DESCRIBE DETAIL {catalog_table(SCHEMA, name)}").records()
        assert detail["clusteringColumns"] == list(spec.cluster_by)
        assert detail["description"] == spec.comment
        assert set(spec.constraints) <= {key.removeprefix("delta.constraints.") for key in detail["properties"]}


def test_tables_that_are_there_lack_nothing_and_old_ones_get_their_columns(engine: WithoutAnalyze) -> None:
    spec = TABLES[QUOTAS]
    assert set(catalog.existing_tables(engine, SCHEMA)) == set(TABLES)
    assert catalog.create(engine, SCHEMA, spec, there=True) == 0

    table = catalog_table(SCHEMA, QUOTAS)
    engine.execute(f"DROP TABLE {table}")
    engine.execute(f"CREATE TABLE {table} (entity_type STRING NOT NULL, entity_name STRING) USING DELTA")
    with pytest.raises(Exception, match="NOT NULL"):
        catalog.create(engine, SCHEMA, spec, there=True)
    engine.execute(f"DROP TABLE {table}")
    engine.execute(
        f"CREATE TABLE {table} (entity_type STRING NOT NULL, entity_name STRING, producer_ids_rate DOUBLE NOT NULL, "
        "updated_at TIMESTAMP NOT NULL) USING DELTA"
    )
    assert catalog.create(engine, SCHEMA, spec, there=True) == 1 + len(spec.constraints)
    names = [column.name for column in catalog.column_facts(engine, SCHEMA, spec)]
    assert sorted(names) == sorted(spec.schema.names)


def test_a_table_is_kept_up_and_a_repeated_batch_is_still_recognised(
    spark: SparkSession, engine: WithoutAnalyze
) -> None:
    spec = TABLES[METRICS]
    for batch_id, age in enumerate((40, 1, 1, 1)):
        append(spark, METRICS, batch_id, {"principal": f"User:{batch_id}", "window_end": NOW - timedelta(days=age)})
    plan = UpkeepPlan({name: other.keep_days for name, other in TABLES.items()}, vacuum_hours=168)

    told = catalog.keep_up(engine, SCHEMA, spec, UpkeepPlan(plan.days, 168, dry_run=True), NOW)
    done = catalog.keep_up(engine, SCHEMA, spec, plan, NOW)

    assert (told.deleted_rows, told.after.rows) == (1, 4)
    assert (done.deleted_rows, done.before.files, done.after.files, done.after.rows) == (1, 4, 1, 3)
    assert done.after.oldest == NOW - timedelta(days=1)
    append(spark, METRICS, 3, {"principal": "User:again", "window_end": NOW})
    assert catalog.facts(engine, SCHEMA, spec).rows == 3


def test_leases_that_are_open_and_the_newest_quotas_stay(spark: SparkSession, engine: WithoutAnalyze) -> None:
    old, days = NOW - timedelta(days=200), {name: spec.keep_days for name, spec in TABLES.items()}
    actions = [("open", "in_force"), ("over", "restored")]
    for number, (lease_id, state) in enumerate(actions):
        row = {"lease_id": lease_id, "state": state, "recorded_at": old, "until": old}
        append(spark, "enforcement_actions", number, row)
    for number in range(2):
        quota = {"entity_type": "user", "entity_name": "o'neill", "producer_ids_rate": 5.0 + number}
        append(spark, QUOTAS, number, quota | {"updated_at": old + timedelta(days=number)})

    for name in ("enforcement_actions", QUOTAS):
        done = catalog.keep_up(engine, SCHEMA, TABLES[name], UpkeepPlan(days, 168), NOW)
        assert (done.deleted_rows, done.after.rows) == (1, 1)
    assert [row["lease_id"] for row in spark.table(f"{SCHEMA}.enforcement_actions").collect()] == ["open"]


def test_quotas_are_merged_and_deleted_the_default_too(spark: SparkSession, engine: WithoutAnalyze) -> None:
    engine.execute(f"USE {SCHEMA}")
    engine.execute("DELETE FROM producer_id_quotas")
    try:
        quota_catalog.merge(engine, [QuotaEntry(None, 100.0, NOW, "test"), QuotaEntry("o'hara", 5.0, NOW, None, 600.0)])
        assert [row["producer_ids_burst"] for row in quota_catalog.rows(engine) if row["entity_name"]] == [600.0]
        quota_catalog.merge(engine, [QuotaEntry("o'hara", 7.0, NOW, "test"), QuotaEntry(None, 50.0, NOW, "test")])
        assert {row["entity_name"]: row["producer_ids_rate"] for row in quota_catalog.rows(engine)} == {
            None: 50.0,
            "o'hara": 7.0,
        }
        quota_catalog.delete(engine, None)
        assert [row["entity_name"] for row in quota_catalog.rows(engine)] == ["o'hara"]
    finally:
        engine.execute("USE default")


def test_the_enforcer_writes_and_reads_its_actions_and_finds_what_is_in_force(
    spark: SparkSession, engine: WithoutAnalyze
) -> None:
    engine.execute(f"USE {SCHEMA}")
    engine.execute("DELETE FROM enforcement_actions")
    engine.execute("DELETE FROM throttle_decisions")
    try:
        now_ms = to_ms(NOW.replace(microsecond=0))
        target = Target("request_percentage", QuotaEntity("m", "app"))
        lease = Lease("l", "User:m", target, now_ms + 60_000, "d", set_ms=now_ms, value=0.01)
        actions: list[EnforcementRecord] = [
            LeaseRecord(now_ms, lease, "12 PIDs", "host/1"),
            ReleaseOrder(now_ms, None, now_ms + 1, "by order"),
        ]
        log = CatalogActions(engine)
        log.append(actions)
        assert log.read() == actions
        assert not log.has_changed()
        decided = {
            "principal": "User:m",
            "action": "THROTTLE",
            "decided_at": NOW,
            "refused_pids": 3,
            "decision_id": "d",
        }
        held = {"throttled_until": NOW + timedelta(hours=1), "client_ids": {"app": 3}}
        append(spark, "throttle_decisions", 90, decided | held)
        append(
            spark,
            "throttle_decisions",
            91,
            decided | {"principal": "User:past", "throttled_until": NOW - timedelta(hours=1)},
        )
        (found,) = CatalogDecisions(engine).newest(now_ms)
        assert found.client_ids == {"app": 3}
        assert newest_write_ms(engine, ["throttle_decisions"]) > now_ms
    finally:
        engine.execute("USE default")

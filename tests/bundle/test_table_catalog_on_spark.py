"""The SQL for catalog tables, on Spark's own Delta catalog, the closest substitute for Databricks here."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from streaming.commit.sinks import DeltaSink
from tables.quotas.quota_entry import QuotaEntry
from tables.schema.catalog_views import view_comment
from tables.schema.ddl import catalog_table, row_schema
from tables.schema.specs import TABLES
from tables.schema.views import SETTINGS as VIEW_SETTINGS
from tables.schema.views import views
from tables.store.catalog import CatalogStore
from tables.store.engines import SparkEngine
from tables.store.values import Answer, StreamSettings, UpkeepPlan

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
def store(spark: SparkSession) -> CatalogStore:
    made = CatalogStore(SCHEMA, WithoutAnalyze(SparkEngine(spark)))
    assert made.create() == dict.fromkeys(TABLES, True)
    return made


def empty(spark: SparkSession, name: str) -> None:
    spark.sql(" ".join(("DELETE FROM", f"{SCHEMA}.{name}")))


def append(spark: SparkSession, name: str, batch_id: int, row: dict[str, object]) -> None:
    values = {column: row.get(column) for column in row_schema(name).names}
    DeltaSink(SCHEMA, "test").append(spark, pa.Table.from_pylist([values], row_schema(name)), name, batch_id)


def test_tables_are_made_with_comments_clusters_and_constraints(spark: SparkSession, store: CatalogStore) -> None:
    for name, spec in TABLES.items():
        columns = SparkEngine(spark).execute(f"DESCRIBE TABLE {catalog_table(SCHEMA, name)}").rows
        made = {row[0]: row[2] for row in columns[: len(spec.schema)]}
        assert made == {column.name: column.metadata[b"comment"].decode() for column in spec.schema}
        (detail,) = SparkEngine(spark).execute(f"DESCRIBE DETAIL {catalog_table(SCHEMA, name)}").records()
        assert detail["clusteringColumns"] == list(spec.cluster_by)
        assert detail["description"] == spec.comment
        assert set(spec.constraints) <= {key.removeprefix("delta.constraints.") for key in detail["properties"]}


def test_tables_that_exist_stay_as_they_are(store: CatalogStore) -> None:
    versions = {name: store.history(name, 1)[0].version for name in TABLES}
    assert set(store.existing()) == set(TABLES)
    assert store.create() == dict.fromkeys(TABLES, False)
    assert {name: store.history(name, 1)[0].version for name in TABLES} == versions


def test_the_settings_of_the_stream_are_table_properties(spark: SparkSession, store: CatalogStore) -> None:
    try:
        store.write_settings(StreamSettings(window_seconds=600, burst_windows=2.0))
        assert CatalogStore(SCHEMA, SparkEngine(spark)).settings() == StreamSettings(600, 2.0)
        assert spark.table(f"{SCHEMA}.settings").collect()[0]["window_ms"] == 600_000
    finally:
        spark.sql("USE default")


def views_made(spark: SparkSession) -> dict[str, tuple[str, str]]:
    def fact(name: str, key: str) -> str:
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {SCHEMA}.{name}").collect()
        return next(str(row["data_type"]) for row in rows if row["col_name"] == key)

    return {name: (fact(name, "Created Time"), fact(name, "View Text")) for name in (VIEW_SETTINGS, *views())}


def test_views_are_made_once_with_comments_and_only_altered_so_that_their_grants_stay(
    spark: SparkSession, store: CatalogStore, caplog: pytest.LogCaptureFixture
) -> None:
    # Spark has no grants. Databricks drops them with a view that is replaced, and keeps them with one that is altered.
    try:
        store.write_settings(StreamSettings(window_seconds=600))
        for name in views():
            assert spark.catalog.getTable(f"{SCHEMA}.{name}").description == view_comment(name)
            described = spark.sql(f"DESCRIBE TABLE {SCHEMA}.{name}").collect()
            assert [row["col_name"] for row in described if not row["comment"]] == [], name
        made = views_made(spark)
        store.write_settings(StreamSettings(window_seconds=600))
        assert views_made(spark) == made

        store.write_settings(StreamSettings(window_seconds=1200))

        changed = views_made(spark)
        assert [name for name in made if made[name] != changed[name]] == [VIEW_SETTINGS]
        assert changed[VIEW_SETTINGS][0] == made[VIEW_SETTINGS][0]
        assert spark.table(f"{SCHEMA}.settings").collect()[0]["window_ms"] == 1_200_000
        # Only Databricks comments on the columns of a view that exists.
        assert "has its new definition, but adding comments failed" in caplog.text
    finally:
        spark.sql("USE default")


def test_a_table_is_kept_up_and_a_repeated_batch_is_still_recognised(spark: SparkSession, store: CatalogStore) -> None:
    spec = TABLES[METRICS]
    for batch_id, age in enumerate((40, 1, 1, 1)):
        append(spark, METRICS, batch_id, {"principal": f"User:{batch_id}", "window_end": NOW - timedelta(days=age)})
    plan = UpkeepPlan({name: other.keep_days for name, other in TABLES.items()}, vacuum_hours=168)

    told = store.keep_up(spec, UpkeepPlan(plan.days, 168, dry_run=True), NOW)
    done = store.keep_up(spec, plan, NOW)

    assert (told.deleted_rows, told.after.rows) == (1, 4)
    assert (done.deleted_rows, done.before.files, done.after.files, done.after.rows) == (1, 4, 1, 3)
    assert done.after.oldest == NOW - timedelta(days=1)
    append(spark, METRICS, 3, {"principal": "User:again", "window_end": NOW})
    assert store.facts(spec).rows == 3


def test_holds_that_have_not_ended_and_the_newest_quotas_stay(spark: SparkSession, store: CatalogStore) -> None:
    old, days = NOW - timedelta(days=200), {name: spec.keep_days for name, spec in TABLES.items()}
    ends = {"User:held": NOW + timedelta(hours=1), "User:past": old}
    for number, (principal, until) in enumerate(ends.items()):
        append(
            spark, "holds", number, {"principal": principal, "state": "in_force", "recorded_at": old, "until": until}
        )
    for number in range(2):
        quota = {"entity_type": "user", "entity_name": "o'neill", "producer_ids_rate": 5.0 + number}
        append(spark, QUOTAS, number, quota | {"updated_at": old + timedelta(days=number)})

    for name in ("holds", QUOTAS):
        done = store.keep_up(TABLES[name], UpkeepPlan(days, 168), NOW)
        assert (done.deleted_rows, done.after.rows) == (1, 1)
    assert [row["principal"] for row in spark.table(f"{SCHEMA}.holds").collect()] == ["User:held"]


def test_rows_are_merged_and_deleted_by_their_keys_null_too(spark: SparkSession, store: CatalogStore) -> None:
    empty(spark, QUOTAS)
    keys = ("entity_type", "entity_name")

    def quota(name: str | None, rate: float, burst: float | None = None) -> dict[str, object]:
        return {"entity_type": "user", **asdict(QuotaEntry(name, rate, NOW, "test", burst))}

    store.merge(QUOTAS, keys, [quota(None, 100.0), quota("o'hara", 5.0, 600.0)], [])
    assert {row["entity_name"]: row["producer_ids_burst"] for row in store.read(QUOTAS)} == {
        None: None,
        "o'hara": 600.0,
    }
    store.merge(QUOTAS, keys, [quota("o'hara", 7.0), quota(None, 50.0)], [])
    assert {row["entity_name"]: row["producer_ids_rate"] for row in store.read(QUOTAS)} == {None: 50.0, "o'hara": 7.0}
    store.merge(QUOTAS, keys, [], [{"entity_type": "user", "entity_name": None}])
    assert [row["entity_name"] for row in store.read(QUOTAS)] == ["o'hara"]

"""What each store of tables promises: the same tests on path tables and on a FAKE warehouse (see `warehouse_kit`)."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tables.errors import TableError
from tables.schema.specs import TABLES
from tables.store.base import TableStore
from tables.store.open import open_store
from tables.store.values import Row, RowFilter, StreamSettings
from tables.times import to_ms
from tests.kits import warehouse_kit
from tests.kits.upkeep_kit import DECISIONS, METRICS, QUOTAS, days_ago, now, plan
from tests.unit.jobs.table_rows import NOON, decision, metrics, seconds

KEYS = ("entity_type", "entity_name")


@pytest.fixture(params=["path", "catalog"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TableStore]:
    warehouse_kit.use(monkeypatch)
    with open_store(str(tmp_path) if request.param == "path" else "prod.pid_quota") as store:
        store.create()
        yield store


def quota(name: str | None, rate: float) -> Row:
    row = {"entity_type": "user", "entity_name": name, "producer_ids_rate": rate, "producer_ids_burst": None}
    return row | {"updated_at": NOON, "updated_by": "o'hara"}


def decided(principal: str, decided_at: datetime) -> Row:
    # Nothing but the stream appends maps, and it does so through Spark.
    return decision(principal, decided_at, client_ids=None, addresses=None)


def rates(store: TableStore) -> dict[str | None, float]:
    return {row["entity_name"]: row["producer_ids_rate"] for row in store.read(QUOTAS)}


def test_all_tables_exist_with_the_columns_of_their_spec(store: TableStore) -> None:
    assert store.existing() == list(TABLES)
    assert store.create() == dict.fromkeys(TABLES, False)
    for spec in TABLES.values():
        described = store.query(f"DESCRIBE {spec.name}", NOON).rows
        assert [row[0] for row in described][: len(spec.schema)] == spec.schema.names
        assert store.table_id(spec.name)
        store.require_known_version(spec.name)


def test_rows_are_read_back_as_they_were_appended(store: TableStore) -> None:
    row = decided("User:o'neill\\", NOON)
    assert not store.has_rows(DECISIONS)
    store.append(DECISIONS, [row])
    assert store.has_rows(DECISIONS)
    assert store.read(DECISIONS) == [row]
    later = RowFilter("decided_at > :since", {"since": NOON - seconds(1)}, ("principal",))
    assert store.read(DECISIONS, later) == [{"principal": "User:o'neill\\"}]
    assert store.read(DECISIONS, RowFilter("principal = :name", {"name": "User:o'neill\\"})) == [row]
    assert store.read(DECISIONS, RowFilter("decided_at > :since", {"since": NOON})) == []


def test_rows_are_merged_by_their_keys_and_removed_null_too(store: TableStore) -> None:
    store.merge(QUOTAS, KEYS, [quota(None, 1.0), quota("o'hara", 2.0), quota("b", 3.0)], [])
    store.merge(QUOTAS, KEYS, [quota("o'hara", 4.0)], [{"entity_type": "user", "entity_name": None}])
    assert rates(store) == {"o'hara": 4.0, "b": 3.0}
    store.merge(QUOTAS, KEYS, [], [{"entity_type": "user", "entity_name": name} for name in ("b", "nobody")])
    assert rates(store) == {"o'hara": 4.0}


def test_a_query_takes_parameters_and_reads_views_with_the_window_of_the_stream(store: TableStore) -> None:
    store.append(METRICS, [metrics("User:a", NOON, admitted_pids=3)])
    by_name = "SELECT principal FROM principal_metrics WHERE principal = :name AND window_end >= :since"
    assert store.query(by_name, NOON, {"name": "User:a", "since": NOON}).rows == (("User:a",),)
    numbers, noon_ms = "SELECT window_number FROM new_pids_per_window", to_ms(NOON)
    assert store.settings() == StreamSettings()
    assert store.query(numbers, NOON).rows == (((noon_ms - 1) // 3_600_000,),)
    store.write_settings(StreamSettings(window_seconds=600, burst_windows=2.0))
    with open_store(store.tables) as other:
        assert other.settings() == StreamSettings(600, 2.0)
        assert other.query(numbers, NOON).rows == (((noon_ms - 1) // 600_000,),)


def test_relations_hold_the_rows_of_their_filters(store: TableStore) -> None:
    store.append(METRICS, [metrics("User:old", NOON - timedelta(days=2)), metrics("User:new", NOON)])
    day = NOON - timedelta(days=1)
    recent = RowFilter("window_end > :day", {"day": day})
    with store.relations(NOON, {METRICS: recent}) as relations:
        asked = relations.ask("SELECT principal FROM principal_metrics WHERE refused_pids = :count", {"count": 0})
        assert asked.rows == (("User:new",),)
        assert relations.ask("SELECT principal FROM producer_id_metrics").rows == (("User:new",),)
        assert relations.settings() == StreamSettings()
        assert relations.missing == {}


def test_expired_rows_are_deleted_and_facts_tell_what_is_left(store: TableStore) -> None:
    store.append(METRICS, [metrics("User:old", days_ago(40)), metrics("User:new", young := days_ago(1))])
    spec = TABLES[METRICS]
    told = store.keep_up(spec, plan(dry_run=True), now())
    assert (told.deleted_rows, store.facts(spec).rows) == (1, 2)
    with store.alone():
        done = store.keep_up(spec, plan(), now())
    assert (done.before.rows, done.deleted_rows, done.after.rows) == (2, 1, 1)
    facts = store.facts(spec)
    assert abs((facts.newest or young) - young) < timedelta(milliseconds=1)
    assert facts.oldest == facts.newest


def test_a_table_that_does_not_exist_is_an_error(store: TableStore) -> None:
    with pytest.raises(TableError):
        store.read("nowhere")

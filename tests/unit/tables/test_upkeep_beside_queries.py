"""Upkeep beside the queries of a console: deletion, compaction, vacuum and log cleanup fail no reader."""

from datetime import datetime, timedelta, timezone
from pathlib import Path

from tables.query.sql_query import query
from tables.query.top_rows import read_rows
from tables.schema.specs import TABLES
from tables.store.open import open_store
from tables.store.path_tables import create_missing
from tables.store.values import Upkeep, UpkeepPlan
from tests.kits.process_kit import repeating

METRICS = "producer_id_metrics"
NOW = datetime(2026, 11, 25, 12, tzinfo=timezone.utc)
COUNT = "SELECT count(*) FROM producer_id_metrics WHERE window_end >= TIMESTAMPTZ '2026-11-25'"
KEPT = 30
SHORTEST_VACUUM_HOURS = 1
PLAN = UpkeepPlan(dict.fromkeys(TABLES, 1), SHORTEST_VACUUM_HOURS)


def append(tables: str, number: int, at: datetime) -> None:
    row = dict.fromkeys(TABLES[METRICS].schema.names) | {"principal": f"User:app-{number}", "window_end": at}
    with open_store(tables) as store:
        store.append(METRICS, [row])


def test_queries_beside_upkeep_neither_fail_nor_miss_a_row(tmp_path: Path) -> None:
    tables, rounds = str(tmp_path), list[Upkeep]()
    create_missing(tables)

    def keep() -> None:
        append(tables, len(rounds), NOW - timedelta(days=9))
        rounds.append(open_store(tables).keep_up(TABLES[METRICS], PLAN, NOW))

    with repeating(keep):
        for number in range(KEPT):
            append(tables, number, NOW)
            counted = query(tables, COUNT, NOW)
            assert counted.rows == ((number + 1,),)
            assert len(read_rows(tables, NOW)) >= number + 1

    assert sum(done.deleted_rows or 0 for done in rounds) > 0
    assert sum(done.files.merged_files or 0 for done in rounds) > 0

"""Upkeep beside a running stream: no batch fails, is lost or comes twice, also when the log has been cleaned up."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from streaming.commit.sinks import DeltaSink
from tables.schema.ddl import row_schema
from tables.schema.specs import TABLES
from tables.store.open import open_store
from tables.store.path_tables import open_table
from tables.store.values import UpkeepPlan
from tests.kits.process_kit import repeating
from tests.kits.stream_kit import Stream, event
from tests.kits.upkeep_kit import make_old

METRICS = "producer_id_metrics"
BATCHES = 10
LONG_AGO = datetime(2020, 1, 1, tzinfo=timezone.utc)
# The stream's own records are of another day than today: only what is from 2020 is too old here.
PLAN = UpkeepPlan(dict.fromkeys(TABLES, 1500), vacuum_hours=1)


def upkeep(tables: str) -> int:
    return open_store(tables).keep_up(TABLES[METRICS], PLAN, datetime.now(timezone.utc)).deleted_rows


def add_an_old_row(tables: str) -> None:
    row = dict.fromkeys(TABLES[METRICS].schema.names) | {"principal": "User:old", "window_end": LONG_AGO}
    open_store(tables).append(METRICS, [row])


@contextmanager
def kept_up(tables: str) -> Iterator[list[int]]:
    """Delete, merge and vacuum without a pause until the block ends; gives how many rows each round deleted."""
    rounds: list[int] = []

    def work() -> None:
        add_an_old_row(tables)
        rounds.append(upkeep(tables))

    with repeating(work):
        yield rounds


def new_principals(batch: int) -> bytes:
    return event(batch, f"User:app-{batch}", at_ms=batch * 1000)


def principals(tables: str) -> list[str]:
    return sorted(open_table(tables, METRICS).to_pyarrow_table(columns=["principal"])["principal"].to_pylist())


def is_there(tables: str, principal: str) -> bool:
    return principal in principals(tables)


@pytest.mark.slow
def test_no_batch_fails_is_lost_or_comes_twice_while_its_table_is_kept_up(stream: Stream) -> None:
    stream.batch(new_principals(0))
    with stream.running() as query:
        stream.wait_for(lambda: len(principals(stream.tables)) == 1, query)
        with kept_up(stream.tables) as rounds:
            for batch in range(1, BATCHES):
                written = f"User:app-{batch}"
                stream.batch(new_principals(batch))
                stream.wait_for(partial(is_there, stream.tables, written), query)
            at_work = len(rounds)
    upkeep(stream.tables)

    assert at_work > 2
    assert sum(rounds) > 0
    assert principals(stream.tables) == sorted(f"User:app-{batch}" for batch in range(BATCHES))
    assert len(open_table(stream.tables, METRICS).file_uris()) == 1


@pytest.fixture
def tidied(stream: Stream) -> Stream:
    """A stream that has stopped, and whose table has lost its old log since."""
    for batch in range(3):
        stream.batch(new_principals(batch))
    stream.run()
    log = Path(stream.tables, METRICS, "_delta_log")
    make_old(log)
    upkeep(stream.tables)
    assert not list(log.glob("*00[012].json"))
    return stream


@pytest.mark.slow
def test_the_number_of_the_last_batch_outlives_the_log(tidied: Stream, tmp_path: Path) -> None:
    # Spark remembers the log of a place where it has been.
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(tidied.tables, elsewhere)
    sink = DeltaSink(str(elsewhere), "test")
    rows = pa.Table.from_pylist([{"principal": "User:again"}], row_schema(METRICS))

    sink.append(tidied.spark, rows, METRICS, 2)
    assert "User:again" not in principals(str(elsewhere))

    sink.append(tidied.spark, rows, METRICS, 3)
    assert principals(str(elsewhere)).count("User:again") == 1


def test_a_batch_that_is_repeated_after_upkeep_is_recognised_and_the_next_ones_are_not(tidied: Stream) -> None:
    # As if Spark had died after the tables had the batch and before it wrote that down.
    for name in ("2", ".2.crc"):
        (tidied.root / "checkpoint" / "commits" / name).unlink()
    tidied.batch(new_principals(3))

    tidied.run()

    assert principals(tidied.tables) == [f"User:app-{batch}" for batch in range(4)]

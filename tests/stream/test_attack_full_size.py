"""The floods of `test_attack_flood.py` in full size. `pytest -s` shows what each batch took."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quota.principals import OVERFLOW_ENTRIES
from tests.kits.stream_kit import OTHERS, Stream, event, others

pytestmark = pytest.mark.slow
BATCHES = 6
ATTACKED = (2, 3)
"""Batches that the flood is in: those before show what is usual, those after how soon it is usual again."""


def run_attacked(stream: Stream, attack: Callable[[int], list[bytes]]) -> list[dict[str, object]]:
    stream.quota(10)
    for batch in range(BATCHES):
        stream.batch(*others(batch), *(attack(ATTACKED.index(batch)) if batch in ATTACKED else []))
    for each in stream.run().recentProgress:
        state, batch_ms = each.stateOperators[0], each.durationMs["triggerExecution"]
        print(f"{each.numInputRows} records, {batch_ms} ms, {state.numRowsTotal} rows, {state.memoryUsedBytes} bytes")
    return stream.said_of(*OTHERS)


@pytest.fixture(scope="module")
def quiet(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    return run_attacked(Stream(spark, tmp_path_factory.mktemp("quiet")), lambda _: [])


@pytest.fixture
def attacked(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


def test_a_million_new_pids_in_a_minute(attacked: Stream, quiet: list[dict[str, object]]) -> None:
    def flood(part: int) -> list[bytes]:
        return [event(10**7 + 500_000 * part + n, at_ms=40_000 + part * 20_000 + n // 30) for n in range(500_000)]

    assert run_attacked(attacked, flood) == quiet
    assert len(attacked.state_rows()) == len(OTHERS) + 1


def test_a_hundred_thousand_principals(attacked: Stream, quiet: list[dict[str, object]]) -> None:
    attacked.max_principals = 5000

    def flood(part: int) -> list[bytes]:
        return [event(10**7 + n, f"User:forged-{50_000 * part + n}", 40_000 + part * 20_000) for n in range(50_000)]

    assert run_attacked(attacked, flood) == quiet
    assert len(attacked.state_rows()) == 5000 + OVERFLOW_ENTRIES


def test_a_million_bad_records(attacked: Stream, quiet: list[dict[str, object]]) -> None:
    bad = [b'{"principal": 7}', b"not json", event(1, "x" * 10_000), event(1, "no-type")]

    said = run_attacked(attacked, lambda _: [bad[n % 3 + (n % 3 == 2) * (n % 100 != 2)] for n in range(500_000)])

    assert said == quiet
    assert len(attacked.state_rows()) == len(OTHERS)
    assert len(attacked.rows("quarantined_events")) < 2 * (1000 + 500 + 1)

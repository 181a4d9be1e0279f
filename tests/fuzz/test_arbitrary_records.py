"""Nothing that stands in a record ends the stream, and a record means the same whatever its neighbours are."""

import secrets
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest
from msgspec import MsgspecError

from quota.config import QuotaConfig
from state.events import Deployment
from streaming.decode.exploded import Exploded
from streaming.decode.records import _decode_one_by_one, _parse_block, decode
from streaming.operator.rows import by_kind, table_rows, unpack_rows
from tests.fuzz.arbitrary import NOW_MS, huge, value
from tests.fuzz.history import Chance
from tests.kits.batch_kit import operator_of, pre_aggregate_of
from tests.kits.exploded_kit import block_of, table_of
from tests.kits.group_state_kit import State
from wire.event_record import parse_events

GOOD = b'{"timestamp_ms": 1790000000000, "principal": "User:good", "after_ms": [0], "producer_ids": [1]}'
FIXED, NEW = 6000, 2000


def taken(events: Exploded) -> list[dict[str, Any]]:
    """What was read of the records; whether a flag is missing, null or false is all the same."""
    rows = table_of(events).to_pylist()
    return [row | {"learning": bool(row["learning"])} for row in rows]


def differing(each: bytes) -> str:
    """How a value is read in a block and alone, if not alike."""
    values = [GOOD, each, GOOD]
    if _parse_block(block_of(values, NOW_MS)["value"].combine_chunks()) is None:
        return ""
    together, alone = (
        decode(block_of(values, NOW_MS)),
        _decode_one_by_one(block_of(values, NOW_MS), None),
    )
    if taken(together.events) == taken(alone.events) and len(together.quarantined) == len(alone.quarantined):
        return ""
    reasons = [[bad.reason for bad in read.quarantined] for read in (together, alone)]
    return f"{each[:300]!r}: in a block {taken(together.events)[1:2]} {reasons[0]}, alone {reasons[1]}"


def through(values: Sequence[bytes | None]) -> dict[str, list[Any]]:
    """All rows that come of records, as columns of their tables, too."""
    deployment = Deployment(QuotaConfig(), salt=3)
    batches = block_of(values, NOW_MS).drop_columns("topic").to_batches()
    pre_aggregated = [batch.to_pandas() for batch in pre_aggregate_of()(iter(batches))]
    if not pre_aggregated:
        return {}
    said = operator_of(deployment)((3,), iter([pd.concat(pre_aggregated)]), State())
    rows = by_kind(row for part in said for row in unpack_rows(part["packed"]))
    for table in ("quarantined_events", "producer_id_metrics", "throttle_decisions"):
        table_rows(rows.get(table, []), table, 0)
    return rows


@pytest.mark.parametrize("seed", [1, secrets.randbelow(10**9)], ids=["1", "new"])
def test_a_value_is_read_alike_in_a_block_and_alone(seed: int) -> None:
    random = Chance(seed)
    found = [line for _ in range(FIXED if seed == 1 else NEW) if (line := differing(value(random)))]

    assert not found, f"seed {seed}: " + "\n".join(found[:5])


@pytest.mark.parametrize("seed", [1, secrets.randbelow(10**9)], ids=["1", "new"])
def test_each_record_is_an_event_or_quarantined_and_none_raises(seed: int) -> None:
    random = Chance(seed)
    for _ in range(40):
        values = [value(random) for _ in range(random.randint(1, 40))]
        taken_ones = {row["offset"] for row in table_of(decode(block_of(values, NOW_MS)).events).to_pylist()}

        rows = through(values)

        quarantined = [row["offset"] for row in rows.get("quarantined_events", [])]
        assert taken_ones | set(quarantined) == set(range(len(values))), f"seed {seed}: {values}"
        assert len(quarantined) == len(set(quarantined)), f"seed {seed}: {values}"


@pytest.mark.parametrize("seed", [1, secrets.randbelow(10**9)], ids=["1", "new"])
def test_what_both_readers_of_a_record_take_is_the_same_to_them(seed: int) -> None:
    random = Chance(seed)
    for _ in range(NEW):
        each = value(random)
        read = decode(block_of([each], NOW_MS))
        try:
            parsed = parse_events(each)
        except (MsgspecError, UnicodeDecodeError, RecursionError):
            continue
        if read.quarantined:
            continue
        names = ("timestamp_ms", "principal", "producer_id", "client_id", "address", "learning")
        assert [tuple(row[name] for name in names) for row in taken(read.events)] == [
            tuple(getattr(event, name) for name in names) for event in parsed
        ], f"seed {seed}: {each!r}"


def test_huge_and_deep_values_are_quarantined_or_taken_and_none_raises() -> None:
    random = Chance(1)
    for _ in range(30):
        odd = huge(random)
        for values in ([odd], [GOOD, odd, GOOD], [b"bad", odd]):
            read = decode(block_of(values, NOW_MS))
            assert len(read.events) + len(read.quarantined) == len(values), odd[:100]
            through(values)
        assert differing(odd) == ""

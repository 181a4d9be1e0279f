"""Records are written by one side and read by another: both must mean the same fields."""

import re
from array import array
from pathlib import Path
from typing import get_type_hints

import msgspec
import pytest

from streaming.decode.exploded import EVENT_SCHEMA, GROUP_NAMES
from wire.columns import HEARTBEAT_COLUMNS, ID_BLOCK_COLUMNS, INIT_COLUMNS
from wire.event_record import EventGroup, EventRecord
from wire.heartbeat import TapHeartbeat
from wire.holds import HOLD_AUTHORIZER, HOLD_PREFIX, LONGEST_HOLD_MS, hold_end_ms, hold_name
from wire.packed_events import PackedEvents
from wire.records import ProduceEvent, ProducerIdBlock, ProducerInit

SPARK_TYPES = {int: {"INT", "BIGINT"}, float: {"DOUBLE"}, str: {"STRING"}, bool: {"BOOLEAN"}}


def fields_of(columns: str) -> list[tuple[str, str]]:
    """Names and types of columns in Spark's words; of structs and arrays only that they are such."""
    return re.findall(r"(\w+) (\w+)(?:<[^>]*>)?(?:, |$)", columns)


@pytest.mark.parametrize(
    ("record", "columns"),
    [(TapHeartbeat, HEARTBEAT_COLUMNS), (ProducerIdBlock, ID_BLOCK_COLUMNS), (ProducerInit, INIT_COLUMNS)],
)
def test_what_spark_reads_is_in_the_record(record: type[msgspec.Struct], columns: str) -> None:
    written = get_type_hints(record)
    fields = fields_of(columns)
    assert fields
    for name, kind in fields:
        assert name in written, name
        if kind not in ("STRUCT", "ARRAY"):
            (python,) = {*getattr(written[name], "__args__", (written[name],))} - {type(None)}
            assert kind in SPARK_TYPES[python], name


def test_what_the_rules_read_is_in_a_produce_event() -> None:
    assert set(EVENT_SCHEMA.names) <= set(get_type_hints(ProduceEvent)) | set(get_type_hints(EventRecord))
    assert set(GROUP_NAMES) <= set(get_type_hints(EventGroup))


@pytest.mark.parametrize(
    "end", ["", "0" * 19, "9" * 5000, "١٨٠٠", "²", "-1", "0", "01800", "+1800", " 1800", "1800\n", "1800:1"]
)
def test_a_name_that_is_not_exactly_a_hold_s_has_no_end(end: str) -> None:
    assert hold_end_ms(HOLD_PREFIX + end) is None


@pytest.mark.parametrize("end_ms", [1, 1_800_000_000_000, 10**18 - 1])
def test_the_end_of_a_hold_is_read_as_it_was_written(end_ms: int) -> None:
    assert hold_end_ms(hold_name(end_ms)) == end_ms


def test_the_class_on_the_brokers_has_the_same_prefix_and_longest_hold() -> None:
    source = Path("jvm/authorizer/HoldAuthorizer.java").read_text(encoding="utf-8")
    package, name = HOLD_AUTHORIZER.split(".")

    assert source.startswith(f"package {package};\n")
    assert f"public class {name} extends StandardAuthorizer" in source
    assert f'PREFIX = "{HOLD_PREFIX}";' in source
    assert f"LONGEST_MS = {LONGEST_HOLD_MS:_};" in source


def test_the_newest_of_packed_events_need_not_be_the_last() -> None:
    times = array("q", [5, 9, 7]).tobytes()
    assert PackedEvents(0, times, times, times, times, times, b"", []).newest_ms() == 9

"""Records are written by one side and read by another: both must mean the same fields."""

import re
from typing import get_type_hints

import msgspec
import pytest

from streaming.decode.records import EVENT_SCHEMA
from wire.columns import HEARTBEAT_COLUMNS, ID_BLOCK_COLUMNS, INIT_COLUMNS
from wire.heartbeat import TapHeartbeat
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
    assert set(EVENT_SCHEMA.names) <= set(get_type_hints(ProduceEvent))

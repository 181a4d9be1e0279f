"""Tests that the writers and readers of records agree on their fields."""

import re
from pathlib import Path
from typing import get_args, get_type_hints

import msgspec
import pytest

import jvm
from streaming.decode.exploded import EVENT_SCHEMA, GROUP_NAMES
from wire.broker_lines import LINE_FORMAT, REPORTER_CLASS, BatchLine, BrokerLine, InitLine, Line, StopLine
from wire.columns import HEARTBEAT_COLUMNS, ID_BLOCK_COLUMNS, INIT_COLUMNS
from wire.event_record import EventGroup, EventRecord
from wire.heartbeat import TapHeartbeat
from wire.holds import HOLD_AUTHORIZER, HOLD_PREFIX, MAX_HOLD_MS, HoldBinding, hold_binding
from wire.records import ProduceEvent, ProducerIdBlock, ProducerInit
from wire.topics import OWN_TOPICS

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
    "end",
    [
        *("", "0" * 19, "9" * 5000, "١٨٠٠", "²", "-1", "0", "01800", "+1800", " 1800", "1800\n"),
        *("1800:", ":ab12", "1800:AB", "1800:a-b", "1800:" + "a" * 33, "1800:ab12:c", "1800:ab12\n", "1800::ab12"),
    ],
)
def test_a_name_that_is_not_exactly_a_hold_s_stands_for_none(end: str) -> None:
    assert hold_binding("mallory", HOLD_PREFIX + end) is None


@pytest.mark.parametrize("lease_id", [None, "a", "canary", "0123456789abcdef0123456789abcdef"])
@pytest.mark.parametrize("end_ms", [1, 1_800_000_000_000, 10**18 - 1])
def test_a_hold_is_read_as_it_was_written(end_ms: int, lease_id: str | None) -> None:
    hold = HoldBinding("mallory", end_ms, lease_id)
    assert hold_binding("mallory", hold.name) == hold


SOURCES = Path(jvm.__file__).parent / "broker"


def source_of(class_name: str) -> str:
    """The Java source of a class in brokers, such as `pidquota.Reporter`."""
    return (SOURCES / f"{class_name.replace('.', '/')}.java").read_text(encoding="utf-8")


def test_the_authorizer_on_the_brokers_has_the_same_prefix_and_longest_hold() -> None:
    source = source_of(HOLD_AUTHORIZER)
    package, name = HOLD_AUTHORIZER.split(".")

    assert source.startswith(f"package {package};\n")
    assert f"public class {name} extends StandardAuthorizer" in source
    assert f'PREFIX = "{HOLD_PREFIX}";' in source
    assert f"MAX_MS = {MAX_HOLD_MS:_};" in source


def test_the_reporter_on_the_brokers_has_the_name_and_the_format_that_taps_know() -> None:
    package, name = REPORTER_CLASS.split(".")

    assert source_of(REPORTER_CLASS).startswith(f"package {package};\n")
    assert f"public class {name} implements MetricsReporter" in source_of(REPORTER_CLASS)
    assert f"FORMAT = {LINE_FORMAT};" in source_of(f"{package}.BrokerLines")


@pytest.mark.parametrize(
    ("writer", "line"),
    [
        ("LineWriter", BrokerLine),
        ("Batches", BatchLine),
        ("Inits", InitLine),
        ("BrokerLines", StopLine),
    ],
)
def test_the_class_writes_exactly_the_fields_of_a_line(writer: str, line: type[msgspec.Struct]) -> None:
    written = re.findall(r'\.add\("(\w+)"', source_of(f"pidquota.{writer}"))
    if line is BrokerLine:
        written.remove("type")
        wanted = list(line.__struct_fields__)
    else:
        wanted = [name for name in line.__struct_fields__ if name not in BrokerLine.__struct_fields__]

    assert sorted(written) == sorted(wanted)


def test_the_class_offers_the_types_of_lines_that_are_defined() -> None:
    sources = [source_of(f"pidquota.{name}") for name in ("Batches", "Inits", "BrokerLines")]
    offered = {kind for source in sources for kind in re.findall(r'offer\("(\w+)"', source)}

    assert offered == {each.__struct_config__.tag for each in get_args(Line)}


def test_the_class_leaves_out_the_topics_that_the_project_writes() -> None:
    (listed,) = re.findall(r"OWN_TOPICS = List\.of\(([^)]*)\);", source_of("pidquota.Settings"))

    assert set(re.findall(r'"([\w-]+)"', listed)) == OWN_TOPICS

"""Tests that the writers and readers of records agree on their fields."""

import re
from pathlib import Path
from typing import get_args, get_type_hints

import msgspec
import pytest

import wire
from streaming.decode.exploded import EVENT_SCHEMA, GROUP_NAMES
from wire.event_record import MAX_EVENTS, MAX_RECORD_BYTES, EventGroup, EventRecord
from wire.holds import HOLD_AUTHORIZER, HOLD_PREFIX, MAX_HOLD_MS, HoldBinding, hold_binding
from wire.plugin_reports import REPORTER_CLASS, BlockReport, InitReport, PluginReport, Report, StopReport
from wire.topics import OWN_TOPICS


def test_what_the_rules_read_is_in_a_record_of_events() -> None:
    assert set(EVENT_SCHEMA.names) <= set(get_type_hints(EventRecord))
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


SOURCES = Path(wire.__file__).parents[1] / "plugin"


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


def test_the_reporter_on_the_brokers_has_the_name_that_readers_know() -> None:
    package, name = REPORTER_CLASS.split(".")

    assert source_of(REPORTER_CLASS).startswith(f"package {package};\n")
    assert f"public class {name} implements MetricsReporter" in source_of(REPORTER_CLASS)


def own(report: type[msgspec.Struct]) -> set[str]:
    """The fields of a report that not every report has."""
    return set(report.__struct_fields__) - set(PluginReport.__struct_fields__)


@pytest.mark.parametrize(
    ("sources", "fields"),
    [
        (["Reports"], {"type", *PluginReport.__struct_fields__}),
        (["Plugin", "Ears", "Watch"], own(StopReport) | own(BlockReport)),
        (["Inits"], own(InitReport)),
        (["EventRecords"], {*EventRecord.__struct_fields__, *EventGroup.__struct_fields__}),
    ],
)
def test_the_plugin_writes_exactly_the_fields_that_readers_know(sources: list[str], fields: set[str]) -> None:
    written = [name for each in sources for name in re.findall(r'\.add\("(\w+)"', source_of(f"pidquota.{each}"))]

    assert sorted(written) == sorted(fields)


def test_the_plugin_offers_the_reports_that_are_defined() -> None:
    offered = set(re.findall(r'(?:offer|Report)\("(\w+)"', source_of("pidquota.Plugin") + source_of("pidquota.Inits")))

    assert offered == {each.__struct_config__.tag for each in get_args(Report)}


def test_the_plugin_packs_as_many_events_into_a_record_as_readers_take() -> None:
    assert f"MOST_EVENTS = {MAX_EVENTS};" in source_of("pidquota.EventRecords")
    assert f"MOST_RECORD_BYTES = {MAX_RECORD_BYTES:_};" in source_of("pidquota.KafkaWriter")


def test_the_plugin_writes_to_the_topics_that_are_defined() -> None:
    sources = "".join(source_of(f"pidquota.{name}") for name in ("Plugin", "Topics", "Settings", "KafkaWriter"))

    assert {topic for topic in OWN_TOPICS if f'"{topic}"' in sources} == OWN_TOPICS

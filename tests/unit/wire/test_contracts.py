"""Tests that the writers and readers of records agree on their fields."""

import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

import wire
from streaming.decode.exploded import EVENT_SCHEMA, GROUP_NAMES
from wire.event_record import MAX_EVENTS, EventGroup, EventRecord
from wire.holds import (
    EVERYBODY,
    HOLD_ANY_AUTHORIZER,
    HOLD_AUTHORIZER,
    MAX_HOLD_MS,
    MAX_RELEASE_MS,
    Hold,
    HoldRecord,
    Release,
    hold_key,
    parse_hold_record,
    release_key,
)
from wire.plugin_reports import (
    REPORTER_CLASS,
    BlockReport,
    HeldPrincipal,
    HoldReport,
    InitReport,
    PluginReport,
    Report,
    StopReport,
)
from wire.topics import OWN_TOPICS


def test_what_the_rules_read_is_in_a_record_of_events() -> None:
    assert set(EVENT_SCHEMA.names) <= set(get_type_hints(EventRecord))
    assert set(GROUP_NAMES) <= set(get_type_hints(EventGroup))


SOURCES = Path(wire.__file__).parents[1] / "plugin"


def source_of(class_name: str) -> str:
    """The Java source of a class in brokers, such as `pidquota.Reporter`."""
    return (SOURCES / f"{class_name.replace('.', '/')}.java").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("class_name", "declared"),
    [
        (HOLD_AUTHORIZER, "extends StandardAuthorizer"),
        (HOLD_ANY_AUTHORIZER, "implements Authorizer"),
        (REPORTER_CLASS, "implements MetricsReporter"),
    ],
)
def test_the_classes_on_the_brokers_have_the_names_that_readers_know(class_name: str, declared: str) -> None:
    package, name = class_name.split(".")

    assert source_of(class_name).startswith(f"package {package};\n")
    assert f"public class {name} {declared}" in source_of(class_name)


def test_the_brokers_ignore_what_is_longer_than_the_stream_writes() -> None:
    source = source_of("pidquota.HoldRecord")
    release_days = MAX_RELEASE_MS // 86_400_000

    assert f"MAX_HOLD_MS = {MAX_HOLD_MS:_};" in source
    assert f"MAX_RELEASE_MS = {release_days} * 86_400_000L;" in source


def test_the_brokers_read_fields_that_the_stream_writes() -> None:
    read = set(re.findall(r'fields, "(\w+)"', source_of("pidquota.HoldRecord")))

    assert read
    assert read <= {*Hold.__struct_fields__, *Release.__struct_fields__, Hold.__struct_config__.tag_field}


@pytest.mark.parametrize("key", [None, b"", b"release:", b"\xff"])
def test_a_record_without_a_principal_is_none(key: bytes | None) -> None:
    assert parse_hold_record(key, None) is None


HOLD = Hold(cluster_id="c", hold_ms=MAX_HOLD_MS, until_ms=0, writer="w")
RELEASE = Release(cluster_id="c", release_ms=MAX_RELEASE_MS)


@pytest.mark.parametrize(
    ("changes", "is_known"),
    [
        ({}, True),
        ({"new_field": 1}, True),
        ({"hold_ms": MAX_HOLD_MS + 1}, False),
        ({"hold_ms": 0}, False),
        ({"hold_ms": "1"}, False),
        ({"version": 2}, False),
        ({"init_every_ms": 0}, False),
        ({"writer": None}, False),
    ],
    ids=str,
)
def test_a_hold_that_does_not_fit_is_none(changes: dict[str, Any], is_known: bool) -> None:
    value = msgspec.json.encode(msgspec.to_builtins(HOLD) | changes)
    assert (parse_hold_record(b"User:a", value) is not None) is is_known


@pytest.mark.parametrize(
    "principal", ["User:mallory", "User:system:serviceaccount:ns:app", "User:CN=a\\,b,O=c", EVERYBODY]
)
def test_a_hold_and_a_release_are_read_as_they_were_written(principal: str) -> None:
    written = msgspec.json.encode
    assert parse_hold_record(hold_key(principal), written(HOLD)) == HoldRecord(principal, False, HOLD)
    assert parse_hold_record(release_key(principal), written(RELEASE)) == HoldRecord(principal, True, RELEASE)


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 10_000])
def test_garbage_is_none(value: bytes) -> None:
    for key in (hold_key("User:a"), release_key("User:a")):
        assert parse_hold_record(key, value) is None


def own(report: type[msgspec.Struct]) -> set[str]:
    """The fields of a report that not every report has."""
    return set(report.__struct_fields__) - set(PluginReport.__struct_fields__)


@pytest.mark.parametrize(
    ("sources", "fields"),
    [
        (["Reports"], {"type", *PluginReport.__struct_fields__}),
        (["Plugin", "Ears", "Watch"], own(StopReport) | own(BlockReport)),
        (["Inits"], own(InitReport)),
        (["Holds"], {*own(HoldReport), *HeldPrincipal.__struct_fields__}),
        (["EventRecords"], {*EventRecord.__struct_fields__, *EventGroup.__struct_fields__}),
    ],
)
def test_the_plugin_writes_exactly_the_fields_that_readers_know(sources: list[str], fields: set[str]) -> None:
    written = [
        name
        for each in sources
        for name in re.findall(r'\.add(?:Texts|Objects)?\("(\w+)"', source_of(f"pidquota.{each}"))
    ]

    assert sorted(written) == sorted(fields)


def test_the_plugin_offers_the_reports_that_are_defined() -> None:
    sources = "".join(source_of(f"pidquota.{name}") for name in ("Plugin", "Inits", "HoldTopic"))
    offered = set(re.findall(r'(?:offer|Report|report)\("(\w+)"', sources))

    assert offered == {each.__struct_config__.tag for each in get_args(Report)}


def test_the_plugin_packs_as_many_events_into_a_record_as_readers_take() -> None:
    assert f"MOST_EVENTS = {MAX_EVENTS};" in source_of("pidquota.EventRecords")


def test_the_plugin_writes_to_the_topics_that_are_defined() -> None:
    sources = "".join(
        source_of(f"pidquota.{name}") for name in ("Plugin", "Topics", "Settings", "KafkaWriter", "OwnTopics")
    )

    assert {topic for topic in OWN_TOPICS if f'"{topic}"' in sources} == OWN_TOPICS

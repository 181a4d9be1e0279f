"""Tests that a report is parsed whole or not at all."""

import json
from typing import Any

import pytest

from wire.plugin_reports import (
    AliveReport,
    PluginState,
    StartReport,
    StopReport,
    parse_report,
)

NOW_MS = 1_790_000_000_000
COMMON: dict[str, Any] = {"timestamp_ms": NOW_MS, "broker_id": 3, "cluster_id": "abc"}
STATE: dict[str, Any] = {
    "run": "0123456789abcdef",
    "plugin_version": "1.0",
    "kafka_version": "4.3.1",
    "repeat_ms": 10_000,
} | {"window_ms": 3_600_000}
INIT: dict[str, Any] = {"principal": "User:a", "address": "10.0.0.1", "error": "NONE"}
BLOCK: dict[str, Any] = {"broker_epoch": 7, "first_producer_id": 4000, "length": 1000}
REQUIRED = {"start": STATE, "alive": STATE, "stop": STATE, "init": INIT, "block": BLOCK, "hold": {}}


def value(kind: str, **fields: object) -> bytes:
    return json.dumps({"type": kind, **COMMON, **REQUIRED[kind], **fields}).encode()


@pytest.mark.parametrize(("kind", "report"), [("start", StartReport), ("alive", AliveReport), ("stop", StopReport)])
def test_the_state_of_a_plugin_has_defaults_for_what_it_does_not_know(kind: str, report: type[PluginState]) -> None:
    assert parse_report(value(kind)) == report(**COMMON, **STATE)


def test_a_field_of_a_newer_plugin_is_ignored() -> None:
    assert parse_report(value("alive", mood="fine")) == AliveReport(**COMMON, **STATE)


@pytest.mark.parametrize(
    "bad",
    [
        *(None, b"", b"null", b"[]", b"{", b"\xff", b"[" * 5000),
        json.dumps(COMMON | STATE).encode(),
        value("alive", type="other"),
        value("alive", type=7),
        value("alive", timestamp_ms=-1),
        value("alive", timestamp_ms=253_402_300_800_000),
        value("alive", timestamp_ms="now"),
        value("alive", broker_id=2**31),
        value("alive", broker_id=None),
        value("alive", cluster_id=None),
        value("alive", run=None),
        value("alive", repeat_ms=0),
        value("alive", next_producer_id=-1),
        value("alive", next_producer_id=2**63),
        value("alive", cluster_brokers=[-1]),
        value("alive", problem="\ud800"),
        value("init", result_producer_id=2**63),
        value("init", producer_epoch=2**15),
        value("block", length=0),
        value("block", first_producer_id=-1),
        value("hold", held=[{"principal": "User:m"}]),
        value("hold", offset=-2),
    ],
)
def test_what_is_no_report_is_none(bad: bytes | None) -> None:
    assert parse_report(bad) is None

"""Tests that a report is parsed whole or not at all."""

import json
from typing import Any

import pytest

from wire.plugin_reports import (
    AliveReport,
    BlockReport,
    HeldPrincipal,
    HoldReport,
    InitReport,
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


def test_the_whole_state_is_parsed() -> None:
    whole: dict[str, Any] = {
        "next_producer_id": 5000,
        "learns_below": 4000,
        "learns_until_ms": NOW_MS,
        "has_authorizer": True,
    }
    whole |= {"problem": "no right to write", "cluster_brokers": [1, 2, 3]}
    names = ("events", "dropped_events", "waiting_pids", "dropped_inits", "ambiguous_inits", "errors", "forgotten_pids")
    whole |= {name: number for number, name in enumerate(names, 1)}

    assert parse_report(value("stop", **whole, shutdown=True)) == StopReport(**COMMON, **STATE, **whole, shutdown=True)


def test_inits_and_blocks_are_parsed() -> None:
    got: dict[str, Any] = {"client_id": "app", "transactional_id": "t", "producer_id": 7, "producer_epoch": 1}
    got |= {"result_producer_id": 8, "result_producer_epoch": 0}

    assert parse_report(value("init")) == InitReport(**COMMON, **INIT)
    assert parse_report(value("init", **got)) == InitReport(**COMMON, **INIT, **got)
    assert parse_report(value("block")) == BlockReport(**COMMON, **BLOCK)


def test_holds_of_a_broker_are_parsed() -> None:
    mallory: dict[str, Any] = {"principal": "User:m", "since_ms": NOW_MS, "ends_ms": NOW_MS + 1, "held_requests": 3}
    whole: dict[str, Any] = {"offset": 7, "released": ["*"], "ignored": "User:b: version is 2"}

    assert parse_report(value("hold")) == HoldReport(**COMMON)
    held = [HeldPrincipal(**mallory), HeldPrincipal(**mallory, ended="expired")]
    assert parse_report(value("hold", **whole, held=[mallory, mallory | {"ended": "expired"}])) == HoldReport(
        **COMMON, **whole, held=held
    )


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

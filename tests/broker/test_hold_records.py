"""Which records of the topic of holds a broker obeys."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from broker.enforcement.hold_topic import HoldTopic
from broker.kafka.topics import admin_client, existing_topics
from broker.local.local_broker import LocalBroker
from tests.kits.admin_kit import delete_topic
from tests.kits.broker_kit import wait_for_report, wait_until
from tests.kits.hold_kit import LOADING, MALLORY, Asker, HoldWriter, held, in_force, now_ms
from wire.holds import MAX_HOLD_MS, MAX_RELEASE_MS, WriterRecord
from wire.plugin_reports import HoldReport, PluginState
from wire.topics import HOLDS

DAY_S = 86_400.0
ODD_NAMES = [
    "CN=app 1,OU=Süd\\,West",
    "system:serviceaccount:ns:app",
    "with:colon",
    "a*b",
    "service@EXAMPLE.COM",
    'quo"te',
    "tab\tand\nline",
    "emoji-\U0001f600",
    "long-" + 2000 * "x",
]


@pytest.fixture(scope="module")
def broker(held_broker: LocalBroker) -> LocalBroker:
    return held_broker


@pytest.fixture
def holds(broker: LocalBroker) -> Iterator[HoldWriter]:
    with HoldWriter(broker) as writer:
        yield writer


@pytest.fixture
def mallory(broker: LocalBroker) -> Iterator[Asker]:
    with Asker(broker) as asker:
        yield asker


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"version": 2}, "version 2 is not 1"),
        ({"version": "1"}, "version is not a whole number"),
        ({"version": None}, "version is not a whole number"),
        ({"cluster_id": "another"}, "cluster_id another is not"),
        ({"cluster_id": None}, "cluster_id is not a string"),
        ({"hold_ms": MAX_HOLD_MS + 1}, "hold_ms 600001 is not from 1 to 600000"),
        ({"hold_ms": 0}, "hold_ms 0 is not"),
        ({"hold_ms": -1}, "hold_ms -1 is not"),
        ({"hold_ms": 1000.5}, "hold_ms is not a whole number"),
        ({"hold_ms": 2**70}, "hold_ms is not a whole number"),
        ({"hold_ms": True}, "hold_ms is not a whole number"),
        ({"until_ms": None}, "until_ms is not a whole number"),
        ({"init_every_ms": 0}, "init_every_ms 0 is not"),
        ({"init_every_ms": "fast"}, "init_every_ms is not a whole number"),
        ({"decision_id": 7}, "decision_id is not a string"),
        ({"writer": None}, "writer is not a string"),
    ],
    ids=str,
)
def test_a_record_that_is_no_hold_is_reported_and_holds_nobody(
    holds: HoldWriter, mallory: Asker, fields: dict[str, Any], why: str
) -> None:
    report = holds.wait_for(holds.hold(**fields))
    assert (mallory.error(), in_force(report)) == (0, {})
    assert (report.ignored or "").startswith(f"{MALLORY}: {why}")


@pytest.mark.parametrize(
    "value",
    [b"", b"hold her", b"[]", b"null", b'{"version":1', b"\xff\xfe", b"[" * 50_000, b"{}x", b'{"a":"' + 70_000 * b"x"],
    ids=["empty", "words", "list", "null", "cut", "bytes", "nested", "more", "long"],
)
def test_garbage_is_reported_and_the_next_record_counts(holds: HoldWriter, mallory: Asker, value: bytes) -> None:
    holds.hold()
    report = holds.wait_for(holds.write(MALLORY.encode(), value))
    assert (report.ignored or "").startswith(MALLORY if len(value) < 60_000 else "User:mallory: key or value")
    # the newest sound record of the key still counts
    assert mallory.error() == LOADING
    holds.wait_for(holds.remove())
    assert mallory.error() == 0


@pytest.mark.parametrize(
    ("principal", "why"),
    [
        ("User:*", "key is no user's principal"),
        ("User:", "key is no user's principal"),
        ("User:ANONYMOUS", "key is no user's principal"),
        ("Group:mallory", "key is no user's principal"),
        ("mallory", "key is no user's principal"),
        ("", "key is no user's principal"),
        ("*", "key is no user's principal"),
        ("User:admin", "the broker never holds it"),
        ("User:never", "the broker never holds it"),
        ("User:CN=never,O=x", "the broker never holds it"),
    ],
)
def test_nobody_is_held_who_must_not_be(
    broker: LocalBroker, holds: HoldWriter, mallory: Asker, principal: str, why: str
) -> None:
    report = holds.wait_for(holds.hold(principal=principal))
    assert report.ignored == f"{principal}: {why}" + (
        " (super.users, pid.quota.never)" if why.startswith("the broker") else ""
    )
    assert in_force(report) == {}
    with Asker(broker, "admin") as admin, Asker(broker, None) as anonymous:
        assert (mallory.error(), admin.error(), anonymous.error()) == (0, 0, 0)


def test_unknown_fields_do_not_matter(holds: HoldWriter, mallory: Asker) -> None:
    report = holds.wait_for(holds.hold(reason="a flood", writer_epoch=7, more={"x": [1]}, init_every_ms=None))
    assert (mallory.error(), [*in_force(report)]) == (LOADING, [MALLORY])


@pytest.mark.parametrize("name", ODD_NAMES, ids=lambda name: name[:20])
def test_odd_names_are_held_as_they_are(holds: HoldWriter, name: str) -> None:
    report = holds.wait_for(holds.hold(principal=f"User:{name}"))
    assert in_force(report).keys() == {f"User:{name}"}
    report = holds.wait_for(holds.release(principal=f"User:{name}"))
    assert (in_force(report), report.released) == ({}, [f"User:{name}"])


@pytest.mark.parametrize("fields", [{"release_ms": MAX_RELEASE_MS + 1}, {"release_ms": 0}, {"version": 2}], ids=str)
def test_a_record_that_is_no_release_releases_nobody(holds: HoldWriter, mallory: Asker, fields: dict[str, Any]) -> None:
    holds.hold()
    value = {"version": 1, "cluster_id": holds.cluster_id, "release_ms": 1000, "by": "x"} | fields
    report = holds.wait_for(holds.write(b"release:*", msgspec.json.encode(value)))
    assert (report.ignored or "").startswith("release:*: ")
    assert mallory.error() == LOADING


def test_the_limit_keeps_others_out_until_there_is_room(holds: HoldWriter) -> None:
    three = ["User:a", "User:b", "User:c"]
    offsets = [holds.hold(principal=each) for each in three]
    assert in_force(holds.wait_for(offsets[-1])).keys() == {*three}

    report = holds.wait_for(holds.hold(principal="User:d"))
    assert in_force(report).keys() == {*three}
    assert report.ignored == "User:d: pid.quota.max.holds is 3"

    # an extension needs no room
    report = holds.wait_for(holds.hold(principal="User:a", decision_id="longer"))
    assert in_force(report)["User:a"].decision_id == "longer"
    holds.remove("User:b")
    report = holds.wait_for(holds.hold(principal="User:d"))
    assert in_force(report).keys() == {"User:a", "User:c", "User:d"}


def test_a_writer_of_many_keys_fills_no_memory_and_hides_no_hold(
    broker: LocalBroker, holds: HoldWriter, mallory: Asker
) -> None:
    with HoldWriter(broker, **{"linger.ms": "5"}) as rogue:
        value = rogue.release_value(DAY_S)
        rogue.wait_for(rogue.write_many((f"release:User:{number}".encode(), value) for number in range(5000)))
        report = holds.wait_for(holds.hold())
        assert mallory.error() == LOADING
        assert len(report.released) == 2000
        report = holds.wait_for(holds.release(60))
        assert mallory.error() == 0


def test_a_topic_that_is_deleted_and_made_anew_holds_nobody(
    broker: LocalBroker, holds: HoldWriter, mallory: Asker
) -> None:
    holds.wait_for(holds.hold())
    assert mallory.error() == LOADING
    started = now_ms()
    delete_topic(broker, HOLDS)
    wait_until(lambda: mallory.error() == 0, "she is free")
    report = wait_for_report(
        broker, HoldReport, lambda each: each.timestamp_ms >= started and not in_force(each) and bool(each.held)
    )
    assert [(each.principal, each.ended) for each in report.held] == [(MALLORY, "removed")]

    # the plugin makes the topic again
    wait_until(lambda: HOLDS in existing_topics(admin_client(broker.admin_config())), "the topic is there")
    assert mallory.error() == 0
    with HoldWriter(broker) as writer:
        writer.hold()
        wait_until(lambda: mallory.error() == LOADING, "holds count again")
    broker.wait_for_plugin()


def test_a_newer_release_shortens_an_older_one(held_broker: LocalBroker) -> None:
    with held(held_broker) as holds, Asker(held_broker) as mallory:
        holds.release(3600)
        holds.wait_for(holds.release(1))
        wait_until(lambda: mallory.error() == LOADING, "she is held again")


def test_a_long_text_is_cut(held_broker: LocalBroker) -> None:
    with HoldWriter(held_broker) as holds:
        found = in_force(holds.wait_for(holds.hold(decision_id=20_000 * "d", writer=20_000 * "w")))[MALLORY]
    assert max(len(found.decision_id), len(found.writer)) < 2000


@pytest.mark.slow
def test_a_plugin_says_that_a_living_stream_has_another_version(broker: LocalBroker) -> None:
    # given a stream of another version that says that it is alive
    record = WriterRecord("a-test", 1, version="9.9")
    with HoldTopic(broker.admin_config()) as topic:
        topic.announce(record)
        # then the plugin reports both versions and what to do, but only once this has lasted
        told = wait_for_report(broker, PluginState, lambda each: "`pid-quota run` is 9.9" in (each.problem or ""))
        assert f"this plugin is version {told.plugin_version}" in str(told.problem)
        # and no longer once the stream has this plugin's version
        topic.announce(replace(record, version=told.plugin_version))
        later_ms = told.timestamp_ms
        wait_for_report(broker, PluginState, lambda each: each.problem is None and each.timestamp_ms > later_ms)

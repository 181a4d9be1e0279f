"""What the demo tells of its tables while the traffic runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from unittest.mock import Mock

import pytest

from jobs.demo.clients import Clients, Traffic
from jobs.demo.demo_view import DemoView, PrincipalRow
from jobs.demo.watching import Slowing, Watching
from tables.store.path_tables import create_missing
from tables.times import to_ms
from tests.kits.hold_topic_kit import MemoryTopic, held
from tests.unit.jobs.table_rows import NOON, append, decision, metrics

if TYPE_CHECKING:
    from broker.enforcement.hold_topic import HoldTopic

READ_EVERY_S = 4.0
NOON_MS = to_ms(NOON)


@dataclass
class Screen:
    """Twin of the view."""

    stages: list[str] = field(default_factory=list)
    updates: list[tuple[list[str], str]] = field(default_factory=list)

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def update(self, rows: Sequence[PrincipalRow], text: str) -> None:
        self.updates.append(([row.principal for row in rows], text))


@dataclass
class Users:
    """Twin of the clients."""

    alice: Traffic
    mallory: Traffic


class Demo:
    """Tables and a clock."""

    def __init__(self, tables: Path) -> None:
        create_missing(str(tables))
        self.tables, self.now_s = tables, 1000.0
        self.screen = Screen()
        self.users = Users(Traffic(3), Traffic(40, 40))
        self.topic = MemoryTopic(NOON_MS)

    def begin(self) -> Watching:
        view, clients = cast("DemoView", self.screen), cast("Clients", self.users)
        return Watching(view, str(self.tables), clients, cast("HoldTopic", self.topic))

    def hold_mallory(self) -> None:
        self.topic.obey(held=[held("User:mallory")])


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Demo:
    demo = Demo(tmp_path)
    monkeypatch.setattr("jobs.demo.watching.time", SimpleNamespace(monotonic=lambda: demo.now_s))
    monkeypatch.setattr("jobs.demo.watching.steady_ms", lambda: demo.topic.steady_ms)
    return demo


class TestTheTables:
    def test_decisions_are_not_queried_while_there_are_no_new_ones(
        self, demo: Demo, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        query = Mock()
        monkeypatch.setattr("jobs.demo.watching.query", query)
        watching = demo.begin()
        watching.look()
        watching.look()
        query.assert_not_called()

    def test_principals_are_shown_now_and_then(self, demo: Demo) -> None:
        append(demo.tables, "producer_id_metrics", metrics("User:alice", NOON))
        watching = demo.begin()
        demo.now_s += READ_EVERY_S - 0.5
        watching.look()
        assert demo.screen.updates == []
        for _ in range(2):
            demo.now_s += 0.5
            watching.look()
        assert demo.screen.updates == [(["User:alice"], "4 s of traffic")]


class TestTheFirstDecision:
    def test_it_is_reported_once_with_its_time(self, demo: Demo) -> None:
        watching = demo.begin()
        watching.look()
        assert watching.first_decision_s is None
        demo.now_s += 7
        append(demo.tables, "throttle_decisions", decision("User:mallory", NOON))
        watching.look()
        demo.now_s += 1
        append(demo.tables, "throttle_decisions", decision("User:mallory", NOON))
        watching.look()
        assert watching.first_decision_s == 7
        assert demo.screen.stages == ["first decision, 7.0 s after the first message: mallory is over her quota"]
        assert watching.throttled() == {"User:mallory"}

    def test_is_no_release(self, demo: Demo) -> None:
        watching = demo.begin()
        watching.look()
        append(demo.tables, "throttle_decisions", decision("User:mallory", NOON, action="RELEASE"))
        watching.look()
        assert (watching.first_decision_s, watching.throttled()) == (None, frozenset())


class TestTheHold:
    def test_it_is_reported_once_with_what_mallory_had_done(self, demo: Demo) -> None:
        watching = demo.begin()
        watching.look()
        assert watching.slowing is None
        demo.now_s += 20
        demo.hold_mallory()
        watching.look()
        demo.users.mallory.delivered = 50
        demo.now_s += 5
        demo.hold_mallory()
        watching.look()
        assert watching.slowing == Slowing(20.0, 40)
        assert demo.screen.stages == ["mallory is on hold: the broker hands her new producer ids at her quota's pace"]


class TestSlowing:
    def test_compares_the_paces_before_and_after(self) -> None:
        slowing = Slowing(20.0, 100)
        assert slowing.before() == 5.0
        assert slowing.after(116, 60.0) == 0.4
        # Less than a second gives no pace.
        assert slowing.after(104, 20.5) == 4.0

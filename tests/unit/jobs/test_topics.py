"""`pid-quota topics create` on topics that exist already. Real brokers are in tests/broker."""

from collections.abc import Sequence

import pytest

from broker.kafka.topic_setup import Difference, TopicOutcome, TopicPlan
from jobs.setup import command
from tests.kits.command_kit import PidQuota, printed
from wire.topics import PRODUCE_EVENTS

CREATE = ("topics", "create", "--bootstrap-server", "kafka:9092")


@pytest.fixture(autouse=True)
def existing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster whose topics exist, that of events with twelve partitions and another retention than planned."""

    def describe(_: object, plans: Sequence[TopicPlan], **_more: object) -> list[TopicOutcome]:
        several = Difference("partitions", "12", "24")
        differs = [Difference("retention.ms", "1", "2"), *([several] if plans[0].partitions == 24 else [])]
        return [
            TopicOutcome(each.name, "differs", 12, differs)
            if each.name == PRODUCE_EVENTS
            else TopicOutcome(each.name, "exists", 1)
            for each in plans
        ]

    setup = type("Setup", (), {"__init__": lambda *_: None, "create": describe, "describe": describe})
    monkeypatch.setattr(command, "TopicSetup", setup)


@pytest.mark.parametrize("more", [(), ("--partitions", 12)])
def test_what_differs_is_shown(pid_quota: PidQuota, more: tuple[object, ...]) -> None:
    assert printed(pid_quota(*CREATE, *more)).splitlines() == [
        f"{PRODUCE_EVENTS}: differs, 12 partitions: retention.ms is 1, not 2",
        "pid-quota-reports: exists, 1 partition",
        "pid-quota-holds: exists, 1 partition",
    ]


def test_another_number_of_partitions_than_a_script_asks_for_is_an_error(pid_quota: PidQuota) -> None:
    for more in ((), ("--dry-run",)):
        code, out, error = pid_quota(*CREATE, "--partitions", 24, *more)
        assert code == 1
        assert "partitions is 12, not 24" in out.splitlines()[0]
        assert error.startswith(f"error: topic {PRODUCE_EVENTS} exists with 12 partitions, not 24, and keeps them, ")

from datetime import datetime, timedelta, timezone
from pathlib import Path

from broker.enforcement.store.tables import DecisionTable
from tables.schema.specs import TABLES
from tables.store.open import open_store
from tables.store.path_tables import create_missing
from tables.times import to_ms

NOON = datetime(2026, 1, 15, 12, tzinfo=timezone.utc)


class TestABrokersClockThatIsSetBack:
    def newest(self, at: datetime) -> list[str]:
        return [each.decision_id for each in self.table.newest(to_ms(at))]

    def decide(self, decision_id: str, at: datetime, seconds: float) -> None:
        row = dict.fromkeys(TABLES["throttle_decisions"].schema.names) | {
            "decision_id": decision_id,
            "principal": f"User:{decision_id}",
            "action": "THROTTLE",
            "decided_at": at,
            "throttled_until": at + timedelta(seconds=seconds),
        }
        self.store.append("throttle_decisions", [row])

    def start(self, folder: Path) -> None:
        create_missing(str(folder))
        self.store = open_store(str(folder))
        self.table = DecisionTable(self.store)

    def test_brings_no_decision_back_that_had_ended(self, tmp_path: Path) -> None:
        # given
        self.start(tmp_path)
        self.decide("ended", NOON - timedelta(seconds=60), seconds=30)
        assert self.newest(NOON) == []

        # when
        assert self.newest(NOON - timedelta(seconds=90)) == []
        self.decide("new", NOON - timedelta(seconds=50), seconds=30)

        # then
        assert self.newest(NOON - timedelta(seconds=50)) == ["new"]

    def test_while_no_enforcer_ran_brings_nothing_back_that_was_written_before(self, tmp_path: Path) -> None:
        # given
        self.start(tmp_path)
        assert self.newest(NOON) == []
        self.decide("before", NOON - timedelta(seconds=60), seconds=600)
        now = NOON - timedelta(seconds=90)

        # when
        assert self.table.newest(to_ms(now), again=True, only_new=True) == []
        self.decide("new", now, seconds=30)

        # then
        assert self.newest(now) == ["new"]

    def test_by_less_than_the_tolerated_skew_changes_nothing(self, tmp_path: Path) -> None:
        self.start(tmp_path)
        self.decide("ends_soon", NOON - timedelta(seconds=60), seconds=58)
        assert self.newest(NOON) == []

        assert self.newest(NOON - timedelta(seconds=4)) == []
        self.decide("new", NOON, seconds=30)

        assert self.newest(NOON - timedelta(seconds=4)) == ["ends_soon", "new"]

"""The enforcer's tables: decisions are followed, actions come back as they were written."""

import errno
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest
from deltalake import DeltaTable

from broker.enforcement.model import (
    AlertRecord,
    EnforcementRecord,
    Lease,
    LeaseRecord,
    ReleaseOrder,
    Target,
    ThrottleDecision,
)
from broker.enforcement.store.tables import ActionTable, DecisionTable, follow_writes
from broker.enforcement.stream_watch import StreamWatch
from broker.kafka.quota_entity import QuotaEntity
from tables.errors import TableError
from tables.store import follow
from tables.store.follow import FollowedTable
from tables.store.open import open_store
from tables.store.path_tables import create_missing
from tables.store.values import Row
from tables.times import to_time
from tests.unit.jobs.table_rows import NOON, append, decision, metrics, seconds

NOON_MS = 1768478400000


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    create_missing(str(tmp_path))
    return tmp_path


def names(decisions: Iterable[ThrottleDecision]) -> list[str]:
    return sorted(decision.principal for decision in decisions)


def decisions_of(tables: Path) -> DecisionTable:
    return DecisionTable(open_store(str(tables)))


def decide(tables: Path, *rows: Row) -> None:
    append(tables, "throttle_decisions", *rows)


def actions_of(tables: Path) -> ActionTable:
    return ActionTable(open_store(str(tables)))


class TestDecisions:
    def test_since_the_first_in_force_are_returned_once_and_again_if_wanted(self, tables: Path) -> None:
        decide(tables, decision("User:past", NOON - seconds(120)))
        decide(tables, decision("User:m", NOON))
        followed = decisions_of(tables)
        assert names(followed.newest(NOON_MS)) == ["User:m"]
        assert followed.newest(NOON_MS) == []
        assert names(followed.newest(NOON_MS, again=True)) == ["User:m"]
        assert followed.newest(NOON_MS + 60_000, again=True) == []

    def test_that_are_appended_later_are_found(self, tables: Path) -> None:
        followed = decisions_of(tables)
        assert followed.newest(NOON_MS) == []
        decide(tables, decision("User:m", NOON, refused_pids=7, client_ids=[("app", 6), ("b", 1)]))
        (found,) = followed.newest(NOON_MS)
        assert (found.decided_at_ms, found.throttled_until_ms) == (NOON_MS, NOON_MS + 60_000)
        assert (found.refused_pids, found.quota, found.client_ids) == (7, 60.0, {"app": 6, "b": 1})

    def test_that_are_written_are_news_once_until_they_are_read(self, tables: Path) -> None:
        followed = decisions_of(tables)
        followed.newest(NOON_MS)
        assert not followed.has_news()
        decide(tables, decision("User:m", NOON))
        # Who can't read it must not try again and again.
        assert [followed.has_news() for _ in range(3)] == [True, False, False]
        decide(tables, decision("User:m", NOON))
        assert names(followed.newest(NOON_MS)) == ["User:m"]
        assert not followed.has_news()
        decide(tables, decision("User:m", NOON))
        assert followed.has_news()

    def test_their_files_are_read_once(self, tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        read = list[str]()
        read_files = FollowedTable.read_files

        def note(table: FollowedTable, files: list[str]) -> list[Row]:
            read.extend(files)
            return read_files(table, files)

        monkeypatch.setattr(FollowedTable, "read_files", note)
        followed = decisions_of(tables)
        for number in range(5):
            decide(tables, decision(f"User:{number}", NOON))
            assert len(followed.newest(NOON_MS)) == number + 1
        assert len(read) == len(set(read)) == 5

    def test_that_are_past_are_let_go_once_files_are_many(self, tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(follow, "_MAX_FILES", 2)
        followed, kept = decisions_of(tables), []
        for minute in range(4):
            # A row that is kept is a bad one that is counted.
            decide(tables, decision("User:m", NOON + seconds(60 * minute)) | {"action": None})
            followed.newest(NOON_MS + 60_000 * minute + 1000)
            kept.append(followed.bad_rows)
        assert kept == [1, 2, 1, 2]

    def test_that_could_not_be_read_come_once_they_can(self, tables: Path) -> None:
        decide(tables, decision("User:m", NOON))
        followed = decisions_of(tables)
        torn = patch.object(FollowedTable, "read_files", side_effect=TableError("torn"))
        with torn, pytest.raises(TableError, match="torn"):
            followed.newest(NOON_MS)
        assert names(followed.newest(NOON_MS)) == ["User:m"]

    @pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE])
    def test_in_a_folder_that_can_not_be_looked_at_are_no_news_and_no_crash(self, tables: Path, number: int) -> None:
        decide(tables, decision("User:m", NOON))
        followed = decisions_of(tables)
        followed.newest(NOON_MS)
        decide(tables, decision("User:n", NOON))
        with patch("os.stat", side_effect=OSError(number, "can't look")):
            assert not followed.has_news()
            # It is opened anew, which reads or tells why it can't.
            assert names(followed.newest(NOON_MS)) == ["User:m", "User:n"]

    def test_that_are_deleted_or_in_another_file_now_are_seen_so(self, tables: Path) -> None:
        followed = decisions_of(tables)
        for name in "abc":
            decide(tables, decision(f"User:{name}", NOON))
        assert names(followed.newest(NOON_MS)) == ["User:a", "User:b", "User:c"]
        table = DeltaTable(str(tables / "throttle_decisions"))
        table.optimize.compact()
        assert names(followed.newest(NOON_MS)) == ["User:a", "User:b", "User:c"]
        table.delete("principal = 'User:b'")
        assert names(followed.newest(NOON_MS)) == ["User:a", "User:c"]

    def test_a_release_ends_when_it_was_decided_and_missing_client_ids_are_none(self, tables: Path) -> None:
        decide(
            tables,
            decision("User:r", NOON, action="RELEASE"),
            decision("User:m", NOON, client_ids=None, refused_pids=None),
        )
        throttle, release = sorted(decisions_of(tables).newest(NOON_MS), key=lambda each: each.principal)
        assert (throttle.principal, throttle.client_ids, throttle.refused_pids) == ("User:m", {}, 0)
        assert (release.principal, release.throttled_until_ms) == ("User:r", NOON_MS)

    def test_that_name_nobody_or_no_time_are_passed_over_and_counted(self, tables: Path) -> None:
        bad = [
            *(decision("User:b", NOON) | {name: None} for name in ("principal", "decision_id", "action")),
            decision("User:b", NOON) | {"decided_at": None},
            decision("User:b", NOON) | {"throttled_until": None},
        ]
        good = decision("User:m", NOON, client_ids=[("app", 6), ("b", None), ("c", -1)])
        decide(tables, *bad, good)
        followed = decisions_of(tables)

        (found,) = followed.newest(NOON_MS)

        assert (found.principal, found.client_ids) == ("User:m", {"app": 6})
        assert followed.bad_rows == 5

    @pytest.mark.parametrize(
        "commit",
        [
            '{"add":{"path":"gone.parquet","size":1,"partitionValues":{},"modificationTime":1,"dataChange":true}}',
            '{"add":{"pa',
        ],
        ids=["of a missing file", "half written"],
    )
    def test_are_followed_again_once_a_bad_commit_is_taken_away(self, tables: Path, commit: str) -> None:
        followed = decisions_of(tables)
        followed.newest(NOON_MS)
        log = tables / "throttle_decisions" / "_delta_log"
        torn = log / f"{len(list(log.glob('*.json'))):020}.json"
        torn.write_text(commit)
        with pytest.raises(TableError, match="can't read table throttle_decisions"):
            followed.newest(NOON_MS)

        torn.unlink()
        decide(tables, decision("User:m", NOON))

        assert names(followed.newest(NOON_MS)) == ["User:m"]

    def test_that_a_raised_quota_ends_sooner_come_instead_of_what_they_end(self, tables: Path) -> None:
        changed = {"reason": "quota_changed"}
        decide(
            tables,
            decision("User:m", NOON, throttled_until=NOON + seconds(600)),
            decision("User:m", NOON + seconds(10), throttled_until=NOON + seconds(28), **changed),
            decision("User:r", NOON, throttled_until=NOON + seconds(600)),
            decision("User:r", NOON + seconds(10), throttled_until=NOON + seconds(10), action="RELEASE", **changed),
        )
        for now_ms in (NOON_MS + 20_000, NOON_MS + 40_000):
            found = decisions_of(tables).newest(now_ms)
            assert names(found) == ["User:m", "User:r"]
            assert sorted(each.throttled_until_ms - NOON_MS for each in found) == [10_000, 28_000]

    def test_that_end_sooner_are_found_in_a_file_of_their_own_although_past(self, tables: Path) -> None:
        for row in (
            decision("User:r", NOON, throttled_until=NOON + seconds(600)),
            decision(
                "User:r",
                NOON + seconds(10),
                throttled_until=NOON + seconds(10),
                action="RELEASE",
                reason="quota_changed",
            ),
            decision("User:z", NOON + seconds(15), throttled_until=NOON + seconds(600)),
        ):
            decide(tables, row)

        found = decisions_of(tables).newest(NOON_MS + 20_000)

        ends = {each.principal: each.throttled_until_ms - NOON_MS for each in found}
        assert ends == {"User:r": 10_000, "User:z": 600_000}

    def test_of_a_time_within_a_millisecond_are_found(self, tables: Path) -> None:
        decide(tables, decision("User:m", NOON + seconds(0.0007)))
        assert names(decisions_of(tables).newest(NOON_MS)) == ["User:m"]

    def test_a_throttle_that_follows_a_release_is_what_holds(self, tables: Path) -> None:
        decide(
            tables,
            decision("User:m", NOON),
            decision("User:m", NOON, action="RELEASE", reason="quota_changed", throttled_until=NOON),
        )
        (found,) = decisions_of(tables).newest(NOON_MS + 1)
        assert found.throttled_until_ms == NOON_MS + 60_000

    def test_a_release_of_a_later_batch_ends_a_throttle_of_the_same_time(self, tables: Path) -> None:
        removed = {"action": "RELEASE", "reason": "quota_changed", "throttled_until": NOON}
        rows = [decision("User:m", NOON), decision("User:m", NOON, batch_id=1, **removed)]
        decide(tables, *rows)
        (found,) = decisions_of(tables).newest(NOON_MS + 1)
        assert found.throttled_until_ms == NOON_MS

    def test_are_followed_across_a_table_whose_log_was_cleaned_up(self, tables: Path) -> None:
        followed = decisions_of(tables)
        followed.newest(NOON_MS)
        for number in range(3):
            decide(tables, decision(f"User:{number}", NOON))
        table = FollowedTable(str(tables), "throttle_decisions").table
        table.create_checkpoint()
        table.optimize.compact()
        for log in sorted((tables / "throttle_decisions" / "_delta_log").glob("*.json"))[:3]:
            log.unlink()
        assert names(followed.newest(NOON_MS)) == ["User:0", "User:1", "User:2"]


TARGET = Target("request_percentage", QuotaEntity("m", "app"))
LEASE = Lease("l", "User:m", TARGET, NOON_MS + 60_000, "d", set_ms=NOON_MS, value=0.01)
HOLD = Lease("h", "User:m", Target("hold", QuotaEntity("m")), NOON_MS + 60_000, "d", set_ms=NOON_MS)
ROWS: list[EnforcementRecord] = [
    LeaseRecord(NOON_MS, LEASE, "12 PIDs", "host/1"),
    LeaseRecord(NOON_MS, LEASE.to("in_force"), "", "host/1"),
    LeaseRecord(NOON_MS, HOLD, "30 PIDs", "host/1"),
    ReleaseOrder(NOON_MS, None, NOON_MS + 1, "by order"),
    ReleaseOrder(NOON_MS, "User:m", NOON_MS + 1, "by order"),
    AlertRecord(NOON_MS, None, "silent"),
]


class TestActions:
    def test_come_back_as_they_were_written_and_in_order(self, tables: Path) -> None:
        table = actions_of(tables)
        table.append(ROWS[:2])
        table.append(ROWS[2:])
        assert actions_of(tables).read() == ROWS

    def test_that_nobody_can_act_on_are_passed_over(self, tables: Path) -> None:
        whole = {"recorded_at": NOON, "sequence": 0, "state": "in_force", "principal": "User:m", "until": NOON}
        lease = {"lease_id": "1", "lease_revision": 0, "decision_id": "d", "entity_user": "m", "new_value": 0.01}
        row = whole | lease | {"lever": "request_percentage"}
        needed = ("recorded_at", "state", "principal", "until", "entity_user", "decision_id", "lever")
        rows = [row | {name: None} for name in (*needed, "lease_id", "lease_revision")]
        append(tables, "enforcement_actions", *rows, row | {"sequence": None})

        (record,) = actions_of(tables).read()

        assert isinstance(record, LeaseRecord)
        assert record.lease.target == Target("request_percentage", QuotaEntity("m"))

    def test_of_others_are_noticed_and_own_ones_are_not(self, tables: Path) -> None:
        table, other = actions_of(tables), actions_of(tables)
        table.read()
        table.append(ROWS[:1])
        assert not table.has_changed()
        other.append(ROWS[2:3])
        assert table.has_changed()
        table.read()
        assert not table.has_changed()

    def test_of_others_are_noticed_although_own_ones_came_after(self, tables: Path) -> None:
        table, other = actions_of(tables), actions_of(tables)
        table.read()
        other.append(ROWS[2:3])
        table.append(ROWS[:1])
        assert table.has_changed()

    def test_that_can_not_be_written_are_an_error(self, tables: Path) -> None:
        table = actions_of(tables)
        (tables / "enforcement_actions").rename(tables / "gone")
        (tables / "enforcement_actions").write_text("a file, not a folder")
        with pytest.raises(TableError, match="no quota is changed without it"):
            table.append(ROWS)

    def test_times_are_exact_to_the_millisecond(self) -> None:
        assert to_time(NOON_MS + 1) == NOON + timedelta(milliseconds=1)


class TestWatch:
    def watch(self, tables: Path, skews: Sequence[int] = (0,)) -> StreamWatch:
        self.alerts: list[str] = []
        next_skew = iter(skews)
        self.newest_ms = FollowedTable(str(tables), "throttle_decisions").last_write_ms()
        newest_write_ms = follow_writes(open_store(str(tables)))
        return StreamWatch(newest_write_ms, lambda: next(next_skew), self.alerts.append)

    def test_a_stream_that_writes_nothing_causes_one_alert_and_another_when_it_is_back(self, tables: Path) -> None:
        watch = self.watch(tables, [0] * 9)
        watch.check(self.newest_ms + 250_000)
        assert self.alerts == []
        for later_ms in (310_000, 320_000, 330_000):
            watch.check(self.newest_ms + later_ms)
        assert len(self.alerts) == 1
        assert "written nothing" in self.alerts[0]
        append(tables, "producer_id_metrics", metrics("User:a", NOON))
        watch.check(self.newest_ms + 330_001)
        assert len(self.alerts) == 1, "it is not time to look"
        # The clock is set back, too.
        watch.check(self.newest_ms + 200_000)
        assert self.alerts[1:] == ["the stream writes again"]

    def test_clocks_more_than_5_s_apart_cause_one_alert(self, tables: Path) -> None:
        watch = self.watch(tables, [5_000, -5_001, -9_000, 0])
        for turn in range(4):
            watch.check(self.newest_ms + 5_000 * turn)
        assert [alert[:33] for alert in self.alerts] == [
            "the brokers' clock is -5.0 s off ",
            "the brokers' clock agrees with th",
        ]

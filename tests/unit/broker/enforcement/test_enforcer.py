from collections.abc import Sequence
from unittest.mock import patch

import pytest

from broker.enforcement.model import CANARY, MAX_LEASE_MS, AlertRecord, Target
from broker.errors import LeaseStoreError, RequestRefusedError
from broker.kafka.quota_entity import QuotaChange, QuotaEntity
from tests.kits.enforcer_kit import KEY, MALLORY, Crash, MemoryLock, World, unavailable
from wire.holds import HoldBinding

APP = QuotaEntity("mallory", "mallory-app")
CANARY_USER = QuotaEntity(CANARY)


@pytest.fixture
def world() -> World:
    return World(narrow=False)


class TestALease:
    def test_sets_the_quota_and_takes_it_back_when_it_is_due(self, world: World) -> None:
        world.enforce(seconds=60)
        assert world.broker.quotas == {MALLORY: {KEY: 0.01}}

        world.reconcile(59.999)
        assert world.broker.quotas == {MALLORY: {KEY: 0.01}}
        world.reconcile(0.001)
        assert world.broker.quotas == {}
        assert world.log.states() == ["applying", "in_force", "restoring", "restored"]

    def test_goes_back_to_the_value_before_and_leaves_other_quotas_alone(self, world: World) -> None:
        world.broker.set(MALLORY, 50.0)
        world.broker.set(MALLORY, 1e6, "producer_byte_rate")
        world.enforce()
        assert world.broker.quotas == {MALLORY: {KEY: 0.01, "producer_byte_rate": 1e6}}
        world.reconcile(60)
        assert world.broker.quotas == {MALLORY: {KEY: 50.0, "producer_byte_rate": 1e6}}

    def test_is_written_down_before_the_broker_hears_of_it(self, world: World) -> None:
        world.decide()
        world.log.broken = OSError("disk full")
        with pytest.raises(OSError, match="disk full"):
            world.reconcile()
        assert world.broker.quotas == {}

        world.log.broken = None
        world.reconcile()
        assert world.broker.quotas == {MALLORY: {KEY: 0.01}}

    def test_ends_when_the_throttle_does_whose_quota_was_raised(self, world: World) -> None:
        world.enforce(seconds=600)
        world.reconcile(10)
        world.decide(seconds=18, reason="quota_changed")
        world.reconcile(17.999)
        assert world.broker.quotas == {MALLORY: {KEY: 0.01}}
        world.reconcile(0.001)
        assert world.broker.quotas == {}
        assert [notice.why for notice in world.notices_of("shortened")] == [
            "its throttle ends sooner: the quota was raised or removed"
        ]

    def test_ends_at_once_when_the_quota_is_removed_and_does_not_come_back(self, world: World) -> None:
        world.enforce(seconds=600)
        world.now_ms += 10_000
        world.decide(seconds=0, reason="quota_changed")
        world.reconcile(1)
        assert world.broker.quotas == {}
        world.restart()
        world.reconcile(1)
        assert world.broker.quotas == {}
        assert world.log.states()[-1] == "restored"

    def test_ends_sooner_also_if_the_order_came_while_nobody_ran(self, world: World) -> None:
        world.enforce(seconds=600)
        world.now_ms += 10_000
        world.decide(seconds=18, reason="quota_changed")
        world.now_ms += 20_000
        world.restart()
        world.reconcile()
        assert world.broker.quotas == {}

    def test_that_waits_for_room_is_not_taken_once_its_throttle_has_ended(self) -> None:
        world = World(narrow=False, max_principals=1)
        world.enforce("User:eve", seconds=60)
        world.decide(seconds=600)
        world.reconcile(1)
        world.decide(seconds=0, reason="quota_changed")
        world.reconcile(60)
        world.reconcile(1)
        assert world.broker.quotas == {}

    def test_that_ended_sooner_is_taken_anew_for_what_is_refused_afterwards(self, world: World) -> None:
        world.enforce(seconds=600)
        world.decide(seconds=0, reason="quota_changed")
        world.reconcile(1)
        world.decide(seconds=60)
        world.reconcile(1)
        assert world.broker.quotas == {MALLORY: {KEY: 0.01}}
        world.reconcile(60)
        assert world.broker.quotas == {}

    def test_of_a_clock_behind_the_brokers_ends_at_once_when_the_quota_is_removed(self, world: World) -> None:
        world.enforce(seconds=600)
        late_by_ms = 30_000
        world.now_ms += late_by_ms
        world.decide(seconds=0, reason="quota_changed")
        world.now_ms -= late_by_ms
        world.reconcile(1)
        assert world.broker.quotas == {}

    def test_is_made_longer_by_a_renewal_without_touching_the_broker(self, world: World) -> None:
        world.enforce()
        world.reconcile(50)
        world.enforce()
        world.reconcile(59)
        assert world.broker.writes() == [0.01]
        world.reconcile(1)
        assert world.broker.writes() == [0.01, None]

    def test_a_renewal_that_comes_in_the_very_turn_of_the_end_does_not_flap(self, world: World) -> None:
        world.enforce()
        world.now_ms += 60_000
        world.enforce()
        assert world.broker.writes() == [0.01]
        told = [notice.action for notice in world.notices if notice.action not in ("lever", "lock")]
        assert told == ["throttled", "extended"]

    @pytest.mark.parametrize("ahead_ms", [-3_600_000, 3_600_000])
    def test_follows_the_brokers_clock_and_not_this_host_s(self, world: World, ahead_ms: int) -> None:
        world.ahead_ms = ahead_ms
        world.restart()
        world.enforce(seconds=60)
        assert world.broker.writes() == [0.01]
        world.reconcile(59.999)
        assert world.broker.writes() == [0.01]
        world.reconcile(0.001)
        world.restart()
        world.reconcile(1)
        assert world.broker.writes() == [0.01, None]

    def test_of_a_decision_dated_far_ahead_is_never_taken_however_often_it_starts(self, world: World) -> None:
        year_ms = 365 * 86_400_000
        world.now_ms += 900 * year_ms
        world.decide(seconds=60)
        world.now_ms -= 900 * year_ms
        for _ in range(3):
            world.restart()
            world.reconcile(1)
        assert world.log.leases() == []
        assert "dated ahead of the brokers' clock: 1" in world.notices_of("alert")[0].why

    def test_of_a_decision_until_the_year_3000_comes_back_for_no_second_hour(self, world: World) -> None:
        world.enforce(seconds=974 * 365 * 86_400)
        for _ in range(3):
            world.pass_seconds(MAX_LEASE_MS / 1000)
            world.restart()
            world.reconcile()
            world.reconcile(1)
        assert world.broker.writes() == [0.01, None]

    def test_of_a_past_decision_is_never_taken(self, world: World) -> None:
        world.decide(seconds=60)
        world.now_ms += 60_000
        world.reconcile()
        assert world.log.records == []

    def test_is_not_taken_where_the_quota_is_tighter_already(self, world: World) -> None:
        world.broker.set(MALLORY, 0.005)
        world.enforce()
        assert world.broker.quotas == {MALLORY: {KEY: 0.005}}
        assert world.log.records == []

    def test_ends_at_the_longest_time_allowed(self, world: World) -> None:
        world.enforce(seconds=36_000)
        world.reconcile(MAX_LEASE_MS / 1000)
        world.reconcile(1)
        assert world.broker.writes() == [0.01, None]


class TestSomebodyElse:
    @pytest.mark.parametrize("value", [7.0, None])
    def test_a_quota_that_another_changes_stays_when_the_lease_ends(self, world: World, value: float | None) -> None:
        world.broker.set(MALLORY, 50.0)
        world.enforce()
        world.broker.set(MALLORY, value)
        before = dict(world.broker.quotas)
        world.reconcile(60)
        assert {entity: values for entity, values in world.broker.quotas.items() if entity != CANARY_USER} == before
        assert world.log.states()[-1] == "relinquished"
        assert "someone else" in world.notices_of("relinquished")[0].why

    def test_is_left_alone_for_a_while_also_by_renewals_and_after_a_restart(self) -> None:
        world = World(narrow=False, hands_off_ms=600_000)
        world.enforce()
        world.broker.set(MALLORY, 7.0)
        world.decide(seconds=61)
        world.reconcile(1)
        world.restart()
        world.decide(seconds=61)
        world.reconcile(60)
        assert world.broker.quotas == {MALLORY: {KEY: 7.0}}

        world.decide()
        world.reconcile(600)
        world.enforce()
        assert world.broker.quotas == {MALLORY: {KEY: 0.01}}

    def test_a_quota_that_another_sets_between_the_intent_and_the_change_stays(self, world: World) -> None:
        world.decide()
        with patch.object(world.broker, "alter", side_effect=Crash), pytest.raises(Crash):
            world.reconcile()
        world.broker.set(MALLORY, 7.0)
        world.restart()
        world.reconcile()
        assert world.broker.quotas == {MALLORY: {KEY: 7.0}}
        assert world.log.states()[-1] == "relinquished"


class TestLimits:
    @pytest.mark.parametrize("principal", ["User:ANONYMOUS", "unknown", "User:etl", "User:web", "no-principal"])
    def test_some_principals_are_never_touched(self, principal: str) -> None:
        world = World(narrow=False, never=frozenset({"User:etl", "web"}))
        world.enforce(principal)
        world.reconcile()
        assert (world.log.records, len(world.notices_of("skipped"))) == ([], 1)

    def test_each_principal_that_is_not_touched_is_told(self) -> None:
        world = World(never=frozenset({"User:etl", "web"}))
        for principal in ("User:etl", "User:web"):
            world.enforce(principal)
        assert [notice.principal for notice in world.notices_of("skipped")] == ["User:etl", "User:web"]

    def test_at_most_so_many_principals_are_throttled_at_once(self) -> None:
        world = World(narrow=False, max_principals=2)
        for number in range(3):
            world.decide(f"User:u{number}", seconds=60 + number)
        world.reconcile()
        assert len(world.broker.quotas) == 2
        assert "--max-principals" in world.notices_of("skipped")[0].why
        world.reconcile(60)
        world.reconcile()
        assert set(world.broker.quotas) == {QuotaEntity("u1"), QuotaEntity("u2")}

    def test_at_most_so_many_quotas_are_in_force_at_once(self) -> None:
        world = World(max_entities=2)
        world.enforce(client_ids={"a": 10, "b": 10, "c": 10})
        assert len(world.broker.quotas) == 2
        assert "--max-entities" in world.notices_of("skipped")[0].why

    def test_a_quota_that_could_not_be_set_yet_takes_its_room(self) -> None:
        world = World(narrow=False, max_entities=1)
        world.broker.errors[MALLORY] = unavailable()
        world.enforce()
        world.decide("User:eve")
        world.reconcile(1)
        assert (world.broker.quotas, world.targets()) == ({}, {Target("request_percentage", MALLORY)})

    def test_a_client_that_changes_its_client_id_gets_six_quotas_in_all_its_life(self) -> None:
        world = World()
        for number in range(20):
            world.enforce(client_ids={f"app-{number}": 10})
            world.reconcile(60)
            if number == 10:
                world.restart()
        assert len({change.entity for change in world.broker.altered}) == 6
        assert MALLORY in {change.entity for change in world.broker.altered}

    def test_an_order_releases_now_and_keeps_new_leases_away_for_its_time(self, world: World) -> None:
        world.decide(seconds=600)
        world.enforce("User:eve", seconds=600)
        world.order("User:mallory")
        world.reconcile()
        assert set(world.broker.quotas) == {QuotaEntity("eve")}
        world.restart()
        world.decide(seconds=600)
        world.reconcile(1)
        assert set(world.broker.quotas) == {QuotaEntity("eve")}
        world.reconcile(120)
        assert set(world.broker.quotas) == {QuotaEntity("eve"), MALLORY}

    def test_an_orderly_stop_restores_all(self, world: World) -> None:
        world.enforce()
        assert world.enforcer.end_all("the enforcer is stopped") == []
        assert world.broker.quotas == {}
        world.restart()
        world.reconcile()
        assert world.broker.quotas == {MALLORY: {KEY: 0.01}}, "the decision is still in force"


class TestErrors:
    def test_of_one_entity_do_not_stop_the_others(self, world: World) -> None:
        world.broker.errors[MALLORY] = RequestRefusedError("not a valid quota")
        world.decide()
        world.enforce("User:eve")
        assert world.broker.quotas == {QuotaEntity("eve"): {KEY: 0.01}}
        assert world.log.states() == ["applying", "failed"]
        assert "not a valid quota" in world.notices_of("failed")[0].why

    def test_that_pass_are_waited_for_with_longer_and_longer_pauses(self, world: World) -> None:
        world.broker.errors[MALLORY] = unavailable()
        world.decide()
        with patch.object(world.broker, "alter", wraps=world.broker.alter) as alter:
            for _ in range(40):
                world.reconcile(0.1)
        assert 3 <= alter.call_count <= 6
        assert len(world.notices_of("trying again")) == 1
        del world.broker.errors[MALLORY]
        world.reconcile(5)
        assert world.broker.quotas == {MALLORY: {KEY: 0.01}}

    def test_at_the_end_of_a_lease_are_tried_again_until_it_is_restored(self, world: World) -> None:
        world.enforce()
        world.broker.errors[MALLORY] = unavailable()
        for _ in range(10):
            world.reconcile(60)
        del world.broker.errors[MALLORY]
        world.reconcile(60)
        assert world.broker.quotas == {}

    def test_after_a_success_are_tried_again_soon(self, world: World) -> None:
        # given
        world.broker.errors[MALLORY] = unavailable()
        world.decide(seconds=120)
        for _ in range(6):
            world.reconcile(10)
        del world.broker.errors[MALLORY]
        world.reconcile(15)
        assert world.broker.quotas == {MALLORY: {KEY: 0.01}}

        # when
        world.broker.errors[MALLORY] = unavailable()
        world.reconcile(45)
        del world.broker.errors[MALLORY]

        # then
        world.reconcile(0.3)
        assert world.broker.quotas == {}

    def test_a_change_that_timed_out_but_was_made_is_taken_back(self, world: World) -> None:
        world.decide()
        world.broker.errors[MALLORY] = unavailable()
        world.reconcile()
        world.broker.set(MALLORY, 0.01)
        del world.broker.errors[MALLORY]
        world.reconcile(60)
        assert world.broker.quotas == {}


class TestTablesThatFail:
    """A lease ends with the brokers alone."""

    @pytest.fixture(params=["decisions", "log", "both"])
    def broken(self, request: pytest.FixtureRequest, world: World) -> World:
        world.broker.set(MALLORY, 50.0)
        world.enforce(seconds=60)
        if request.param != "log":
            world.decisions.broken = OSError("torn commit")
        if request.param != "decisions":
            world.log.broken = OSError("torn commit")
        return world

    def reconcile(self, world: World, after_seconds: float = 0.0) -> None:
        with pytest.raises(OSError, match="torn commit"):
            world.reconcile(after_seconds)

    def test_keep_no_lease_from_its_end(self, broken: World) -> None:
        self.reconcile(broken, 59)
        assert broken.broker.quotas == {MALLORY: {KEY: 0.01}}
        self.reconcile(broken, 1)
        assert broken.broker.quotas == {MALLORY: {KEY: 50.0}}

    def test_keep_no_lease_from_its_end_after_a_restart(self, broken: World) -> None:
        broken.restart()
        self.reconcile(broken, 60)
        assert broken.broker.quotas == {MALLORY: {KEY: 50.0}}

    def test_keep_no_quota_over_an_orderly_stop(self, broken: World) -> None:
        assert broken.enforcer.end_all("the enforcer is stopped") == []
        assert broken.broker.quotas == {MALLORY: {KEY: 50.0}}

    def test_obey_an_order_that_came_by_the_brokers(self, broken: World) -> None:
        broken.order()
        self.reconcile(broken)
        assert broken.broker.quotas == {MALLORY: {KEY: 50.0}}

    def test_get_their_rows_when_they_can_be_read_again_also_by_the_next_enforcer(self, broken: World) -> None:
        self.reconcile(broken, 60)
        broken.restart()
        self.reconcile(broken)
        broken.decisions.broken = broken.log.broken = None
        broken.reconcile()
        assert broken.log.states() == ["applying", "in_force", "restoring", "restored"] or (
            # The step before the last is for the brokers' record alone, if the one who took it is gone.
            broken.log.states() == ["applying", "in_force", "restored"]
        )
        assert broken.store.kept == {}

    def test_let_no_new_lease_be_taken_or_made_longer(self, broken: World) -> None:
        broken.decide("User:eve")
        broken.decide(seconds=600)
        self.reconcile(broken)
        self.reconcile(broken, 60)
        assert broken.broker.quotas == {MALLORY: {KEY: 50.0}}

    def test_that_come_back_empty_lose_no_value_of_before(self, broken: World) -> None:
        broken.restart()
        broken.decisions.broken = broken.log.broken = None
        broken.log.records, broken.decisions.rows = [], []
        broken.reconcile()
        broken.reconcile(60)
        assert broken.broker.quotas == {MALLORY: {KEY: 50.0}}

    def test_let_nobody_take_an_orderly_stop_for_a_change_by_somebody_else(self, broken: World) -> None:
        broken.enforcer.end_all("the enforcer is stopped")
        broken.restart()
        broken.decisions.broken = broken.log.broken = None
        broken.reconcile()
        assert broken.notices_of("relinquished") == []
        assert broken.broker.quotas == {MALLORY: {KEY: 0.01}}

    def test_that_are_lost_together_with_the_enforcer_lose_no_value_of_before(self, world: World) -> None:
        world.broker.set(MALLORY, 50.0)
        world.decide(seconds=60)
        alter = world.broker.alter

        def alter_and_die(changes: Sequence[QuotaChange]) -> None:
            alter(changes)
            raise Crash

        with patch.object(world.broker, "alter", alter_and_die), pytest.raises(Crash):
            world.reconcile()
        assert world.broker.quotas == {MALLORY: {KEY: 0.01}}

        world.restart()
        world.log.records, world.decisions.rows = [], []
        world.reconcile()
        world.reconcile(60)
        assert world.broker.quotas == {MALLORY: {KEY: 50.0}}

    def test_do_not_hide_a_lease_that_only_they_know(self, world: World) -> None:
        world.enforce()
        world.store.kept.clear()
        world.restart()
        world.reconcile()
        world.log.broken = OSError("torn commit")
        self.reconcile(world, 60)
        assert world.broker.quotas == {}

    def test_do_not_hide_a_lease_that_only_they_know_from_a_release(self, world: World) -> None:
        world.enforce(seconds=600)
        world.store.kept.clear()
        world.decide(seconds=0, reason="quota_changed")
        world.restart()
        world.reconcile(1)
        assert world.broker.quotas == {}


class TestATopicThatCannotBeWritten:
    """The table contains what the topic lacks. The loop looks for due leases before it reads the tables."""

    @pytest.fixture
    def stopped(self, world: World) -> World:
        world.enforce(seconds=600)
        world.store.broken = LeaseStoreError("not enough replicas")
        world.enforcer.end_all("the enforcer is stopped")
        assert world.broker.quotas == {}
        world.store.broken = None
        world.restart()
        return world

    @pytest.mark.parametrize("is_deleted", [False, True])
    def test_lets_nobody_take_an_orderly_stop_for_a_change_by_somebody_else(
        self, stopped: World, is_deleted: bool
    ) -> None:
        if is_deleted:
            stopped.store.kept.clear()
        stopped.enforcer.end_due()
        stopped.reconcile()
        assert stopped.notices_of("relinquished") == []
        assert stopped.broker.quotas == {MALLORY: {KEY: 0.01}}
        assert set(stopped.store.kept) == {lease.lease_id for lease in stopped.enforcer.leases.values()}

    def test_ends_nothing_twice(self, stopped: World) -> None:
        stopped.broker.set(MALLORY, 50.0)
        stopped.decisions.rows.clear()
        stopped.reconcile(600)
        assert stopped.broker.quotas == {MALLORY: {KEY: 50.0}}
        assert stopped.log.states().count("restored") == 1

    def test_does_not_hide_a_change_by_somebody_else_while_nobody_ran(self, world: World) -> None:
        world.enforce(seconds=600)
        world.broker.set(MALLORY, None)
        world.restart()
        world.enforcer.end_due()
        assert world.notices_of("relinquished") == []
        world.reconcile()
        assert len(world.notices_of("relinquished")) == 1


class TestBetweenReconciliations:
    """While these back off, as while the tables or the topic of leases fail."""

    def test_a_lease_ends_in_time_without_the_tables(self, world: World) -> None:
        world.enforce(seconds=60)
        world.decisions.broken = world.log.broken = OSError("torn commit")
        world.pass_seconds(59.999)
        world.enforcer.end_due()
        assert world.broker.quotas == {MALLORY: {KEY: 0.01}}
        world.pass_seconds(0.001)
        world.enforcer.end_due()
        assert world.broker.quotas == {}

    def test_a_lease_ends_in_time_without_the_topic_of_leases(self, world: World) -> None:
        world.enforce(seconds=60)
        world.store.broken = LeaseStoreError("topic deleted")
        world.pass_seconds(60)
        with pytest.raises(LeaseStoreError):
            world.enforcer.end_due()
        assert world.broker.quotas == {}

    def test_a_release_ends_a_lease_without_the_table_of_actions(self, world: World) -> None:
        world.enforce(seconds=600)
        world.log.broken = OSError("table deleted")
        world.decide(seconds=0)
        with pytest.raises(OSError, match="table deleted"):
            world.reconcile(1)
        assert world.broker.quotas == {}

    def test_an_order_is_obeyed(self, world: World) -> None:
        world.enforce(seconds=60)
        world.order()
        world.enforcer.end_due()
        assert world.broker.quotas == {}


class TestRowsThatAreNotComplete:
    def test_are_told_once_and_again_when_there_are_more(self, world: World) -> None:
        for count in (2, 0, 1):
            for _ in range(count):
                world.decide(decision_id=None, seconds=600)
            world.reconcile(1)
        assert [notice.why.rpartition(". ")[0][-3:] for notice in world.notices_of("alert")] == [": 2", ": 3"]


class TestAClockThatIsSetBack:
    DAY_MS = 86_400_000

    @pytest.mark.parametrize("back_ms", [1_000, 40_000, DAY_MS])
    def test_makes_no_lease_longer(self, world: World, back_ms: int) -> None:
        world.enforce(seconds=60)
        world.reconcile(50)
        world.now_ms -= back_ms
        world.reconcile(10)
        assert world.broker.quotas == {}
        # Nor does the decision come back, though it is still in force by that clock.
        for _ in range(5):
            world.reconcile(1)
        world.restart()
        world.reconcile(1)
        assert world.broker.writes() == [0.01, None]

    def test_does_not_hide_a_decision_that_was_written_before_the_next_read(self, world: World) -> None:
        world.enforce(seconds=60)
        world.now_ms -= self.DAY_MS
        world.decide("User:eve", seconds=60)
        world.reconcile(1)
        assert QuotaEntity("eve") in world.broker.quotas

    def test_is_told_and_written_down(self, world: World) -> None:
        world.enforce(seconds=60)
        for told in (
            "86400 s: leases are shortened by that time",
            # Since the latest record of the topic.
            "172800 s: leases end, and older decisions do not count",
        ):
            world.now_ms -= self.DAY_MS
            world.reconcile()
            alert = world.notices_of("alert")[-1]
            assert f"the brokers' clock was set back by {told}" in alert.why
            assert alert.why in [record.reason for record in world.log.records if isinstance(record, AlertRecord)]
            world.restart()

    def test_makes_no_decision_longer_that_waits_for_the_table_of_actions(self, world: World) -> None:
        # given
        world.log.broken = OSError("torn commit")
        world.decide(seconds=60)
        with pytest.raises(OSError, match="torn commit"):
            world.reconcile()

        # when
        world.now_ms -= self.DAY_MS
        world.log.broken = None
        world.reconcile(1)
        assert world.broker.quotas == {MALLORY: {KEY: 0.01}}

        # then
        world.reconcile(60)
        assert world.broker.quotas == {}

    def test_while_no_enforcer_ran_ends_its_leases(self, world: World) -> None:
        world.enforce(seconds=60)
        world.now_ms -= self.DAY_MS
        world.restart()
        world.reconcile()
        assert world.broker.quotas == {}

    @pytest.mark.parametrize("back_s", [20, 40, 290, 86_400])
    @pytest.mark.parametrize("is_killed", [True, False])
    def test_while_no_enforcer_ran_keeps_decisions_from_before_out(
        self, world: World, back_s: int, *, is_killed: bool
    ) -> None:
        # given
        world.enforce(seconds=300)
        world.reconcile(30)
        if not is_killed:
            world.enforcer.end_all("stopped")
        world.now_ms -= back_s * 1000

        # when
        for _ in range(3):
            world.restart()
            world.reconcile()
            world.reconcile(1)

        # then
        assert world.broker.quotas == {}
        world.enforce(seconds=20)
        assert world.broker.quotas == {MALLORY: {KEY: 0.01}}

    def test_while_no_enforcer_ran_brings_back_no_decision_that_was_shortened(self, world: World) -> None:
        world.enforce(seconds=120)
        world.pass_seconds(5)
        world.enforce(seconds=20)
        world.reconcile(25)
        self.set_back_and_restart(world, 22)
        assert world.broker.writes() == [0.01, None]

    def test_while_no_enforcer_ran_brings_back_no_decision_that_never_had_a_lease(self, world: World) -> None:
        world.broker.set(MALLORY, 0.005)
        world.enforce(seconds=25)
        world.broker.set(MALLORY, None)
        world.reconcile(30)
        self.set_back_and_restart(world, 22)
        assert world.broker.quotas == {}

    def test_while_no_enforcer_ran_brings_no_decision_back_without_the_table_of_actions(self, world: World) -> None:
        world.enforce(seconds=25)
        world.reconcile(30)
        world.log.records.clear()
        self.set_back_and_restart(world, 20)
        assert world.broker.writes() == [0.01, None]

    def test_while_no_enforcer_ran_brings_nothing_back_though_decisions_are_unreadable_at_first(
        self, world: World
    ) -> None:
        # given
        world.enforce(seconds=5)
        world.reconcile(10)
        world.decide(seconds=300)
        world.now_ms -= 60_000
        world.restart()

        # when
        world.decisions.broken = OSError("torn commit")
        with pytest.raises(OSError, match="torn commit"):
            world.reconcile()
        assert world.broker.quotas == {}
        world.now_ms += 120_000
        world.decisions.broken = None

        # then
        for _ in range(3):
            world.reconcile(1)
        assert world.broker.quotas == {}

    def set_back_and_restart(self, world: World, seconds: int) -> None:
        world.enforcer.end_all("stopped")
        world.now_ms -= seconds * 1000
        world.restart()
        for _ in range(3):
            world.reconcile(1)

    def test_shortens_holds_on_the_brokers(self) -> None:
        # given
        world = World(with_authorizer=True)
        world.enforce(seconds=60)
        end_ms = world.now_ms + 60_000
        assert world.holds.ends() == [end_ms]

        # when
        world.now_ms -= 10_000
        world.reconcile(1)

        # then
        assert world.holds.ends() == [end_ms - 10_000]

    def test_by_less_than_the_tolerated_skew_ends_nothing_at_a_restart(self, world: World) -> None:
        world.enforce(seconds=60)
        world.now_ms -= 4_000
        world.restart()
        world.reconcile()
        assert world.broker.quotas == {MALLORY: {KEY: 0.01}}

    def test_does_not_put_off_a_retry(self, world: World) -> None:
        world.enforce(seconds=60)
        world.broker.errors[MALLORY] = unavailable()
        world.reconcile(60)
        del world.broker.errors[MALLORY]
        world.now_ms -= self.DAY_MS
        world.reconcile(1)
        assert world.broker.quotas == {}


class TestAQuotaThatIsTighter:
    def test_of_the_user_is_not_loosened_by_a_lease_on_a_client_id(self) -> None:
        world = World()
        world.broker.set(MALLORY, 0.005)
        world.enforce(client_ids={"mallory-app": 10})
        assert world.broker.quotas == {MALLORY: {KEY: 0.005}}
        assert "already 0.005" in world.notices_of("skipped")[0].why

    def test_of_a_client_id_is_not_loosened_by_a_lease_on_its_user(self, world: World) -> None:
        world.broker.set(APP, 0.005)
        world.enforce(client_ids={"mallory-app": 10})
        assert world.broker.quotas == {APP: {KEY: 0.005}}
        assert "already 0.005" in world.notices_of("skipped")[0].why

    def test_by_default_is_not_loosened_by_a_lease_on_a_user(self, world: World) -> None:
        world.broker.wider = 0.005
        world.enforce()
        assert world.broker.quotas == {}

    def test_that_comes_during_a_lease_ends_it_at_its_renewal(self) -> None:
        world = World()
        world.enforce(client_ids={"mallory-app": 10})
        world.broker.set(MALLORY, 0.005)
        world.decide(seconds=120, client_ids={"mallory-app": 10})
        world.reconcile(1)
        assert world.broker.quotas == {MALLORY: {KEY: 0.005}}
        world.reconcile(1)
        assert world.broker.quotas == {MALLORY: {KEY: 0.005}}


class TestAValueOfOursWithoutALease:
    def test_is_said_at_the_start_with_the_way_to_clear_it(self, world: World) -> None:
        world.broker.set(APP, 0.01)
        world.broker.set(QuotaEntity("bob"), 0.02)
        world.reconcile()
        (said,) = world.notices_of("alert")
        assert "no lease is open on it" in said.why
        assert "--entity-type users --entity-name mallory --entity-type clients --entity-name mallory-app" in said.why
        assert world.broker.quotas == {APP: {KEY: 0.01}, QuotaEntity("bob"): {KEY: 0.02}}

    def test_is_said_once_of_each_however_many_there_are(self, world: World) -> None:
        for number in range(25):
            world.broker.set(QuotaEntity(f"user-{number}"), 0.01)
        told = list[int]()
        for _ in range(4):
            world.reconcile(60)
            told.append(len({notice.why for notice in world.notices_of("alert")}))
        assert told == [10, 20, 25, 25]

    def test_is_not_said_of_leases(self, world: World) -> None:
        world.enforce()
        world.restart()
        world.reconcile()
        assert world.notices_of("alert") == []


class TestTheLock:
    def test_an_enforcer_without_it_only_waits(self, world: World) -> None:
        waiting = MemoryLock()
        waiting.held = False
        second = world.another(waiting)
        world.enforce()
        second.reconcile()
        assert world.broker.writes() == [0.01]

        world.lock.held, waiting.held = False, True
        world.reconcile()
        world.now_ms += 60_000
        second.reconcile()
        world.reconcile()
        assert world.broker.writes() == [0.01, None]

    def test_an_enforcer_that_lost_it_without_notice_changes_nothing(self, world: World) -> None:
        world.decide()
        with patch.object(world.lock, "confirm", return_value=False):
            world.reconcile()
        assert (world.log.records, world.broker.altered) == ([], [])

    def test_an_enforcer_that_lost_it_without_notice_removes_no_hold_of_its_successor(self) -> None:
        world = World(with_authorizer=True)
        theirs = HoldBinding("eve", world.now_ms + 600_000, "0123456789abcdef0123456789abcdef")
        world.holds.bindings.add(theirs)
        with patch.object(world.lock, "confirm", return_value=False):
            world.reconcile()
        assert world.holds.bindings == {theirs}

        world.reconcile(60)
        assert world.holds.bindings == set(), "with the lock, it is a leftover"

    def test_an_enforcer_that_lost_it_leaves_its_leases_to_the_next(self, world: World) -> None:
        world.enforce()
        world.lock.held = False
        assert world.enforcer.end_all("stopped") == []
        assert world.broker.quotas == {MALLORY: {KEY: 0.01}}


def scenario(world: World) -> None:
    """Two principals, one with a quota of its own, one of them renewed, until all is over."""
    world.decide(client_ids={"mallory-app": 10})
    world.decide("User:eve", seconds=90)
    world.reconcile(1)
    world.reconcile(30)
    world.decide(seconds=70, client_ids={"mallory-app": 10})
    world.reconcile(10)
    world.reconcile(100)
    world.reconcile(1)


def calls_of_the_scenario() -> int:
    world = World()
    scenario(world)
    return world.faults.calls


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("crash_at", range(1, calls_of_the_scenario() + 1))
def test_a_crash_at_any_point_leaves_no_quota_behind(crash_at: int, after: bool) -> None:
    world = World()
    world.broker.set(QuotaEntity("eve"), 50.0)
    world.broker.set(QuotaEntity("bob"), 0.01)
    before = {entity: dict(values) for entity, values in world.broker.quotas.items()}
    world.faults.crash_at, world.faults.after = crash_at, after

    with pytest.raises(Crash):
        scenario(world)
    world.restart()
    for _ in range(4):
        world.reconcile(0.2)
    world.reconcile(200)

    assert world.broker.quotas == before
    assert world.store.kept == {}
    # And what it had taken, it had taken once: no crash makes it take the quota of a lease for the one before.
    assert all(record.lease.previous in (None, 50.0) for record in world.log.leases())


def test_an_open_lease_goes_on_after_a_crash_without_being_set_again(world: World) -> None:
    world.enforce()
    world.restart()
    world.reconcile(1)
    world.reconcile(59)
    assert world.broker.writes() == [0.01, None]


def test_changes_by_others_while_no_enforcer_ran_are_reported_at_the_start(world: World) -> None:
    world.enforce()
    world.broker.set(MALLORY, 7.0)
    world.restart()
    world.reconcile(1)
    assert [notice.target for notice in world.notices_of("relinquished")] == [Target("request_percentage", MALLORY)]


def test_a_restart_does_not_make_a_lease_longer_than_allowed(world: World) -> None:
    world.enforce(seconds=36_000)
    world.reconcile(MAX_LEASE_MS / 2000)
    world.restart()
    world.reconcile()
    world.reconcile(MAX_LEASE_MS / 2000)
    assert world.broker.quotas == {}

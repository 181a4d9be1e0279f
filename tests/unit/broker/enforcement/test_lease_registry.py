from dataclasses import replace
from unittest.mock import patch

import pytest

from broker.enforcement.lease_registry import LeaseRegistry
from broker.enforcement.model import Lease, LeaseRecord, ReleaseOrder, Target
from broker.errors import LeaseStoreError
from tests.kits.enforcer_kit import MALLORY, Faults, MemoryLog, MemoryStore

LEASE = Lease("l", "User:mallory", Target("request_percentage", MALLORY), 2000, "d", value=0.01, set_ms=1000)
IN_FORCE = LEASE.to("in_force")


def loaded(log: MemoryLog, store: MemoryStore) -> LeaseRegistry:
    registry = LeaseRegistry(log, store, "host", hands_off_ms=0)
    registry.load()
    return registry


class TestALeaseThatOnlyTheTableHas:
    """The lease topic was deleted and created again."""

    def setup_method(self) -> None:
        self.log, self.store = MemoryLog(Faults()), MemoryStore(Faults())
        self.log.append([LeaseRecord(1000, IN_FORCE, "")])

    def test_is_found_and_written_to_the_topic(self) -> None:
        registry = loaded(self.log, self.store)

        assert registry.refresh() == [IN_FORCE]
        assert registry.leases == {IN_FORCE.target: IN_FORCE}
        assert self.store.read() == [LeaseRecord(1000, IN_FORCE, "found in the table", "host")]

    def test_is_not_looked_for_again(self) -> None:
        registry = loaded(self.log, self.store)
        registry.refresh()
        elsewhere = replace(IN_FORCE, lease_id="m", target=Target("hold", MALLORY))
        self.log.records.append(LeaseRecord(1001, elsewhere, "written by somebody else"))

        assert registry.refresh() == []

    def test_is_not_found_if_the_topic_knows_that_it_ended(self) -> None:
        self.store.append([LeaseRecord(1500, IN_FORCE.to("restored"), "")])
        registry = loaded(self.log, self.store)

        assert registry.refresh() == []
        assert registry.leases == {}

    def test_is_not_found_if_its_target_has_a_lease(self) -> None:
        other = replace(IN_FORCE, lease_id="m")
        self.store.append([LeaseRecord(1500, other, "")])
        registry = loaded(self.log, self.store)

        assert registry.refresh() == []
        assert registry.leases == {other.target: other}


class TestALeaseWhoseEndTheTopicLacks:
    def setup_method(self) -> None:
        self.log, self.store = MemoryLog(Faults()), MemoryStore(Faults())
        self.log.append([LeaseRecord(1000, IN_FORCE, "")])
        self.store.append([LeaseRecord(1000, IN_FORCE, "")])
        self.registry = loaded(self.log, self.store)
        self.registry.refresh()
        self.store.broken = LeaseStoreError("not enough replicas")
        self.registry.record([(IN_FORCE.to("restored"), "stopped")], 1500)
        with pytest.raises(LeaseStoreError):
            self.registry.flush()
        self.store.broken = None

    def test_has_ended_for_the_next_enforcer_once_it_has_read_the_table(self) -> None:
        successor = loaded(self.log, self.store)
        assert set(successor.leases) == {IN_FORCE.target}

        assert successor.refresh() == []

        assert successor.leases == {}
        successor.flush()
        assert self.store.read() == []

    def test_is_removed_from_the_topic_once_that_can_be_written(self) -> None:
        self.registry.flush()
        assert self.store.read() == []
        assert [record.lease.state for record in self.log.leases()] == ["in_force", "restored"]

    def test_is_removed_from_the_topic_also_if_its_removal_fails_at_first(self) -> None:
        with patch.object(self.store, "drop", side_effect=LeaseStoreError("no answer")), pytest.raises(LeaseStoreError):
            self.registry.flush()
        assert self.store.read() != []
        self.registry.flush()
        assert self.store.read() == []

    def test_is_dropped_alone(self) -> None:
        other = replace(IN_FORCE, lease_id="m", target=Target("hold", MALLORY))
        self.store.append([LeaseRecord(1000, other, "")])
        successor = loaded(self.log, self.store)

        assert successor.refresh() == []

        assert successor.leases == {other.target: other}
        successor.flush()
        assert self.store.read() == [LeaseRecord(1000, other, "")]


class TestReleaseOrders:
    def setup_method(self) -> None:
        self.log, self.store = MemoryLog(Faults()), MemoryStore(Faults())

    def covers(self, now_ms: int) -> bool:
        registry = loaded(self.log, self.store)
        registry.refresh()
        return registry.known().releases.covers("User:mallory", now_ms)

    def test_of_the_topic_hold_beside_those_of_the_table(self) -> None:
        self.log.append([ReleaseOrder(1000, "User:eve", 9000)])
        self.store.append([ReleaseOrder(2000, "User:mallory", 9000)])
        assert self.covers(8999)
        assert not self.covers(9000)

    def test_replace_one_that_a_clock_had_dated_ahead(self) -> None:
        ahead, later = ReleaseOrder(86_400_000, "User:mallory", 90_000_000), ReleaseOrder(2000, "User:mallory", 9000)
        # The table's rows are ordered by their times.
        self.log.append([later, ahead])
        self.store.append([later])
        assert self.covers(8999)
        assert not self.covers(9000)

from dataclasses import replace

from broker.enforcement.lease_registry import LeaseRegistry
from broker.enforcement.model import Lease, LeaseRecord, Target
from tests.kits.enforcer_kit import MALLORY, Faults, MemoryLog, MemoryStore

LEASE = Lease("l", "User:mallory", Target("request_percentage", MALLORY), 2000, "d", value=0.01, set_ms=1000)
IN_FORCE = LEASE.to("in_force")


class TestALeaseThatOnlyTheTableHas:
    """The lease topic was deleted and created again."""

    def setup_method(self) -> None:
        self.log, self.store = MemoryLog(Faults()), MemoryStore(Faults())
        self.log.append([LeaseRecord(1000, IN_FORCE, "")])

    def registry(self) -> LeaseRegistry:
        loaded = LeaseRegistry(self.log, self.store, "host", hands_off_ms=0)
        loaded.load()
        return loaded

    def test_is_found_and_written_to_the_topic(self) -> None:
        registry = self.registry()

        assert registry.refresh() == [IN_FORCE]
        assert registry.leases == {IN_FORCE.target: IN_FORCE}
        assert self.store.read() == [LeaseRecord(1000, IN_FORCE, "found in the table", "host")]

    def test_is_not_looked_for_again(self) -> None:
        registry = self.registry()
        registry.refresh()
        elsewhere = replace(IN_FORCE, lease_id="m", target=Target("hold", MALLORY))
        self.log.records.append(LeaseRecord(1001, elsewhere, "written by somebody else"))

        assert registry.refresh() == []

    def test_is_not_found_if_the_topic_knows_that_it_ended(self) -> None:
        self.store.append([LeaseRecord(1500, IN_FORCE.to("restored"), "")])
        registry = self.registry()

        assert registry.refresh() == []
        assert registry.leases == {}

    def test_is_not_found_if_its_target_has_a_lease(self) -> None:
        other = replace(IN_FORCE, lease_id="m")
        self.store.append([LeaseRecord(1500, other, "")])
        registry = self.registry()

        assert registry.refresh() == []
        assert registry.leases == {other.target: other}

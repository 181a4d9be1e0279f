"""ACLs, and the holds among them, against a twin of a broker that keeps ACLs as Kafka does."""

import time
from dataclasses import astuple, replace
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

from broker.cluster import lazy_admin
from broker.cluster.acl_bindings import AclBinding, AclBindings
from broker.cluster.client_quotas import QuotaChange
from broker.cluster.hold_bindings import HOLD, HoldBindings
from broker.cluster.quota_entity import QuotaEntity
from broker.errors import ClientQuotaRefusedError, ClientQuotaUnavailableError
from wire.holds import LONGEST_HOLD_MS, hold_name

INVALID, NOT_CONTROLLER, NO_RIGHT = 42, 41, 31
SETTINGS = {"bootstrap_servers": "nowhere:1"}
MALLORY, ALICE = QuotaEntity("mallory", is_hold=True), QuotaEntity("alice", is_hold=True)
Codes = tuple[int, str, int, str, str, int, int]


class Broker:
    """Codes of the protocol: resource type, name, pattern, principal, host, operation, permission."""

    def __init__(self) -> None:
        self.acls: list[Codes] = []
        self.listed: list[Codes] | None = None
        """What it lists while it has not heard of changes."""
        self.errors: dict[type, int] = {}
        self.matching_error = 0
        self.asked: list[type] = []

    def close(self) -> None: ...

    def ask(self, request: Any, _node_id: int | None = None) -> Any:
        self.asked.append(type(request))
        error = SimpleNamespace(error_code=self.errors.get(type(request), 0), error_message=None)
        if isinstance(request, DescribeAclsRequest):
            listed = self.acls if self.listed is None else self.listed
            error.resources = [_listed(each) for each in listed if _fits(each, _codes(request, "_filter"))]
            return error
        if isinstance(request, CreateAclsRequest):
            if not error.error_code:
                self.acls += [each for each in map(_codes, request.creations) if each not in self.acls]
            fine = [SimpleNamespace(error_code=0, error_message=None)] * (len(request.creations) - 1)
            return SimpleNamespace(results=[*fine, error])
        wanted = [_codes(each, "_filter") for each in request.filters]
        if not error.error_code:
            self.acls = [each for each in self.acls if not any(_fits(each, one) for one in wanted)]
        error.matching_acls = [SimpleNamespace(error_code=self.matching_error, error_message=None)]
        return SimpleNamespace(filter_results=[error])


def _codes(message: Any, suffix: str = "") -> Codes:
    """The fields by their names: `resource_pattern_type` is `pattern_type_filter` in a filter."""
    pattern = "pattern_type_filter" if suffix else "resource_pattern_type"
    names = ("resource_type", "resource_name", pattern, "principal", "host")
    named = [getattr(message, name if name == pattern else name + suffix) for name in names]
    return (*named, message.operation, message.permission_type)


def _fits(acl: Codes, wanted: Codes) -> bool:
    """A filter's None and 1 let anything pass."""
    return all(passes in (None, 1, value) for value, passes in zip(acl, wanted, strict=True))


def _listed(acl: Codes) -> Any:
    _, name, pattern, principal, host, operation, permission = acl
    entry = SimpleNamespace(principal=principal, host=host, operation=operation, permission_type=permission)
    return SimpleNamespace(resource_name=name, pattern_type=pattern, acls=[entry])


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    twin = Broker()
    monkeypatch.setattr(lazy_admin, "RawAdmin", lambda **_: twin)
    return twin


@pytest.fixture
def acls(broker: Broker) -> AclBindings:
    return AclBindings(SETTINGS)


ORDERS = AclBinding("topic", "orders", "User:mallory", "write", host="10.0.0.5")
NEIGHBOURS = [
    replace(ORDERS, resource_type="cluster"),
    replace(ORDERS, name="bills"),
    replace(ORDERS, principal="User:alice"),
    replace(ORDERS, operation="all"),
    replace(ORDERS, permission="allow"),
    replace(ORDERS, host="*"),
    replace(ORDERS, pattern="prefixed"),
]


class TestAcls:
    def test_each_is_stored_in_kafka_s_codes(self, broker: Broker, acls: AclBindings) -> None:
        acls.create([ORDERS, AclBinding("cluster", "kafka-cluster", "User:*", "idempotent_write", "allow")])
        assert broker.acls == [
            (2, "orders", 3, "User:mallory", "10.0.0.5", 4, 2),
            (4, "kafka-cluster", 3, "User:*", "*", 12, 3),
        ]

    def test_they_are_found_by_resource_operation_and_principal(self, acls: AclBindings) -> None:
        acls.create([ORDERS, *NEIGHBOURS])
        on_topics = [each for each in (ORDERS, *NEIGHBOURS) if each.resource_type == "topic"]
        assert acls.find("topic") == on_topics
        assert acls.find("topic", "all") == [each for each in on_topics if each.operation == "all"]
        assert acls.find("topic", principal="User:alice") == [replace(ORDERS, principal="User:alice")]

    def test_one_that_we_never_set_is_read_as_other(self, broker: Broker, acls: AclBindings) -> None:
        broker.acls = [(2, "orders", 3, "User:alice", "*", 8, 3)]
        assert acls.find("topic") == [AclBinding("topic", "orders", "User:alice", "other", "allow")]

    @pytest.mark.parametrize("neighbour", NEIGHBOURS, ids=lambda each: str(astuple(each)))
    def test_one_that_differs_in_any_field_is_not_deleted(self, acls: AclBindings, neighbour: AclBinding) -> None:
        acls.create([ORDERS, neighbour])
        acls.delete([ORDERS])
        assert acls.find("topic") + acls.find("cluster") == [neighbour]

    @pytest.mark.parametrize(
        ("code", "error"),
        [
            (INVALID, ClientQuotaRefusedError),
            (NOT_CONTROLLER, ClientQuotaUnavailableError),
            (NO_RIGHT, ClientQuotaUnavailableError),
        ],
    )
    def test_what_kafka_does_not_do_is_an_error(
        self, broker: Broker, acls: AclBindings, code: int, error: type[Exception]
    ) -> None:
        acls.create([ORDERS])
        broker.errors = dict.fromkeys((DescribeAclsRequest, CreateAclsRequest), code)
        with pytest.raises(error):
            acls.find("topic")
        with pytest.raises(error):
            acls.create([ORDERS, NEIGHBOURS[0]])
        broker.matching_error = code
        with pytest.raises(error):
            acls.delete([ORDERS])
        broker.errors[DeleteAclsRequest], broker.matching_error = code, 0
        with pytest.raises(error):
            acls.delete([ORDERS])


class TestHolds:
    @pytest.fixture
    def now_ms(self) -> int:
        return round(1000 * time.time())

    @pytest.fixture
    def holds(self, broker: Broker) -> HoldBindings:
        return HoldBindings(SETTINGS)

    def test_a_new_end_takes_the_place_of_the_old_one(
        self, holds: HoldBindings, acls: AclBindings, now_ms: int
    ) -> None:
        for until_ms in (now_ms + 60_000, now_ms + 120_000, now_ms + 120_000):
            assert put(holds, until_ms) is None
            assert acls.find("topic") == [hold("User:mallory", until_ms)]
            assert holds.describe(MALLORY) == {HOLD: until_ms}
        assert put(holds, None) is None
        assert (acls.find("topic"), holds.describe(MALLORY)) == ([], {})

    def test_the_new_end_is_there_before_the_old_one_goes(
        self, holds: HoldBindings, acls: AclBindings, broker: Broker, now_ms: int
    ) -> None:
        put(holds, now_ms + 60_000)
        broker.matching_error = NOT_CONTROLLER
        assert isinstance(put(holds, now_ms + 120_000), ClientQuotaUnavailableError)
        assert hold("User:mallory", now_ms + 120_000) in acls.find("topic")

    def test_ends_that_a_broker_does_not_list_yet_are_removed(
        self, holds: HoldBindings, broker: Broker, now_ms: int
    ) -> None:
        broker.listed = []
        put(holds, now_ms + 60_000)
        put(holds, now_ms + 120_000)
        assert [name for _, name, *_ in broker.acls] == [hold_name(now_ms + 120_000)]
        put(holds, None)
        assert broker.acls == []

    def test_an_end_that_could_not_be_removed_is_removed_with_the_next_change(
        self, holds: HoldBindings, broker: Broker, now_ms: int
    ) -> None:
        broker.listed = []
        put(holds, now_ms + 60_000)
        broker.errors = {DeleteAclsRequest: NOT_CONTROLLER}
        assert isinstance(put(holds, None), ClientQuotaUnavailableError)
        broker.errors = {}
        put(holds, None)
        assert broker.acls == []
        broker.asked = []
        put(holds, None)
        assert broker.asked == [DescribeAclsRequest]

    @pytest.mark.parametrize("ends", [(1000, 2000), (2000, 1000)])
    def test_of_several_the_latest_end_counts_and_all_go(
        self, holds: HoldBindings, acls: AclBindings, ends: tuple[int, int]
    ) -> None:
        acls.create([hold("User:mallory", end) for end in ends] + [hold("User:alice", 3000), hold("Group:staff", 4000)])
        assert holds.describe(MALLORY) == {HOLD: 2000}
        assert holds.describe_all() == {MALLORY: {HOLD: 2000}, ALICE: {HOLD: 3000}}
        put(holds, None)
        assert acls.find("topic") == [hold("User:alice", 3000), hold("Group:staff", 4000)]

    @pytest.mark.parametrize(
        "change", [{"permission": "allow"}, {"pattern": "prefixed"}, {"host": "10.0.0.5"}, {"name": "orders"}], ids=str
    )
    def test_an_acl_that_is_no_hold_of_all_hosts_is_neither_read_nor_removed(
        self, holds: HoldBindings, acls: AclBindings, change: dict[str, Any]
    ) -> None:
        other = replace(hold("User:mallory", 1000), **change)
        acls.create([other])
        assert (holds.describe(MALLORY), holds.describe_all()) == ({}, {})
        put(holds, None)
        assert acls.find("topic") == [other]

    @pytest.mark.parametrize(
        "entity", [QuotaEntity(user, is_hold=True) for user in ("*", "ANONYMOUS", None)] + [QuotaEntity("mallory")]
    )
    def test_everybody_and_what_is_no_hold_are_never_held(
        self, holds: HoldBindings, broker: Broker, now_ms: int, entity: QuotaEntity
    ) -> None:
        assert isinstance(put(holds, now_ms + 60_000, entity), ClientQuotaRefusedError)
        assert broker.acls == []

    def test_a_hold_that_brokers_ignore_is_reported_only(
        self, holds: HoldBindings, acls: AclBindings, now_ms: int
    ) -> None:
        far = hold("User:mallory", now_ms + 2 * LONGEST_HOLD_MS)
        acls.create([far])
        assert (holds.describe(MALLORY), list(holds.describe_all())) == ({}, [MALLORY])
        put(holds, now_ms + 60_000)
        assert holds.describe(MALLORY) == {HOLD: now_ms + 60_000}
        put(holds, None)
        assert acls.find("topic") == [far]

    def test_no_hold_is_set_that_brokers_would_ignore(self, holds: HoldBindings, broker: Broker, now_ms: int) -> None:
        assert isinstance(put(holds, now_ms + LONGEST_HOLD_MS + 60_000), ClientQuotaRefusedError)
        assert broker.acls == []
        assert put(holds, now_ms + LONGEST_HOLD_MS - 60_000) is None


def hold(principal: str, until_ms: int) -> AclBinding:
    return AclBinding("topic", hold_name(until_ms), principal, "write")


def put(holds: HoldBindings, until_ms: int | None, entity: QuotaEntity = MALLORY) -> Exception | None:
    return holds.alter([QuotaChange(entity, HOLD, until_ms)])[entity]

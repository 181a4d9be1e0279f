from dataclasses import astuple, replace
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from kafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

from broker.errors import BrokerUnreachableError, RequestNotAllowedError, RequestRefusedError
from broker.kafka import client
from broker.kafka.acls import Acl, AclResource, Acls
from broker.kafka.holds import HoldBindings
from wire.holds import HoldBinding

INVALID, NOT_CONTROLLER, NO_RIGHT = 42, 41, 31
SECURITY_DISABLED = 54
SETTINGS = {"bootstrap_servers": "nowhere:1"}
MALLORY = HoldBinding("mallory", 1_800_000_000_000, "ab12")
BY_HAND = replace(MALLORY, lease_id=None)
ALICE = HoldBinding("alice", 1_800_000_000_000)
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
    monkeypatch.setattr(client, "RawAdmin", lambda **_: twin)
    return twin


@pytest.fixture
def acls(broker: Broker) -> Acls:
    return Acls(client.KafkaAdmin(SETTINGS))


ORDERS = Acl(AclResource.TOPIC, "orders", "User:mallory", "write", host="10.0.0.5")
NEIGHBOURS = [
    replace(ORDERS, resource=AclResource.CLUSTER),
    replace(ORDERS, name="bills"),
    replace(ORDERS, principal="User:alice"),
    replace(ORDERS, operation="all"),
    replace(ORDERS, permission="allow"),
    replace(ORDERS, host="*"),
    replace(ORDERS, pattern="prefixed"),
]


class TestAcls:
    def test_each_is_stored_in_kafka_s_codes(self, broker: Broker, acls: Acls) -> None:
        acls.create([ORDERS, Acl(AclResource.CLUSTER, "kafka-cluster", "User:*", "idempotent_write", "allow")])
        assert broker.acls == [
            (2, "orders", 3, "User:mallory", "10.0.0.5", 4, 2),
            (4, "kafka-cluster", 3, "User:*", "*", 12, 3),
        ]

    def test_they_are_found_by_resource_operation_and_principal(self, acls: Acls) -> None:
        acls.create([ORDERS, *NEIGHBOURS])
        on_topics = [each for each in (ORDERS, *NEIGHBOURS) if each.resource is AclResource.TOPIC]
        assert acls.find(AclResource.TOPIC) == on_topics
        assert acls.find(AclResource.TOPIC, "all") == [each for each in on_topics if each.operation == "all"]
        assert acls.find(AclResource.TOPIC, principal="User:alice") == [replace(ORDERS, principal="User:alice")]

    def test_one_that_we_never_set_is_read_as_other(self, broker: Broker, acls: Acls) -> None:
        broker.acls = [(2, "orders", 3, "User:alice", "*", 8, 3)]
        assert acls.find(AclResource.TOPIC) == [Acl(AclResource.TOPIC, "orders", "User:alice", "other", "allow")]

    @pytest.mark.parametrize(("pattern_code", "pattern"), [(3, "literal"), (4, "prefixed")])
    @pytest.mark.parametrize(
        ("operation_code", "operation"), [(2, "all"), (4, "write"), (3, "other"), (12, "idempotent_write")]
    )
    @pytest.mark.parametrize(("permission_code", "permission"), [(2, "deny"), (3, "allow")])
    def test_each_is_read_by_kafka_s_codes(
        self,
        broker: Broker,
        acls: Acls,
        pattern_code: int,
        pattern: str,
        operation_code: int,
        operation: str,
        permission_code: int,
        permission: Literal["allow", "deny"],
    ) -> None:
        broker.acls = [(5, "t", pattern_code, "User:a", "*", operation_code, permission_code)]

        expected = Acl(AclResource.TRANSACTIONAL_ID, "t", "User:a", operation, permission, "*", pattern)
        assert acls.for_writers() == {expected}

    @pytest.mark.parametrize("neighbour", NEIGHBOURS, ids=lambda each: str(astuple(each)))
    def test_one_that_differs_in_any_field_is_not_deleted(self, acls: Acls, neighbour: Acl) -> None:
        acls.create([ORDERS, neighbour])
        acls.delete([ORDERS])
        assert acls.find(AclResource.TOPIC) + acls.find(AclResource.CLUSTER) == [neighbour]

    def test_brokers_without_an_authorizer_have_none(self, broker: Broker, acls: Acls) -> None:
        broker.errors[DescribeAclsRequest] = SECURITY_DISABLED
        assert acls.find(AclResource.TOPIC) == []

    @pytest.mark.parametrize(
        ("code", "error"),
        [
            (INVALID, RequestRefusedError),
            (NOT_CONTROLLER, BrokerUnreachableError),
            (NO_RIGHT, RequestNotAllowedError),
        ],
    )
    def test_an_error_of_kafka_is_raised_by_every_request(
        self, broker: Broker, acls: Acls, code: int, error: type[Exception]
    ) -> None:
        acls.create([ORDERS])
        broker.errors = dict.fromkeys((DescribeAclsRequest, CreateAclsRequest), code)
        with pytest.raises(error):
            acls.find(AclResource.TOPIC)
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
    def holds(self, broker: Broker) -> HoldBindings:
        return HoldBindings(SETTINGS)

    def test_each_is_an_acl_whose_name_has_its_end_and_its_lease(self, holds: HoldBindings, acls: Acls) -> None:
        for each in (MALLORY, BY_HAND, ALICE):
            holds.add(each)
        assert acls.find(AclResource.TOPIC) == [
            Acl(AclResource.TOPIC, "pid-quota-hold:1800000000000:ab12", "User:mallory", "write"),
            Acl(AclResource.TOPIC, "pid-quota-hold:1800000000000", "User:mallory", "write"),
            Acl(AclResource.TOPIC, "pid-quota-hold:1800000000000", "User:alice", "write"),
        ]

    def test_they_are_found_by_user_whatever_their_end(self, broker: Broker) -> None:
        past = replace(MALLORY, until_ms=1)
        HoldBindings(SETTINGS).add(past)
        HoldBindings(SETTINGS).add(ALICE)
        assert HoldBindings(SETTINGS).of_user("mallory") == [past]
        assert {*HoldBindings(SETTINGS).all()} == {past, ALICE}

    def test_exactly_those_that_are_named_are_removed(self, holds: HoldBindings) -> None:
        later = replace(MALLORY, until_ms=MALLORY.until_ms + 1)
        for each in (MALLORY, BY_HAND, later, ALICE):
            holds.add(each)
        holds.remove([MALLORY, later])
        assert {*holds.all()} == {BY_HAND, ALICE}
        assert holds.of_user("mallory") == [BY_HAND]

    def test_one_that_is_gone_is_removed_without_an_error(self, holds: HoldBindings, acls: Acls) -> None:
        holds.remove([MALLORY])
        assert acls.find(AclResource.TOPIC) == []

    def test_to_remove_none_nobody_is_asked(self, holds: HoldBindings, broker: Broker) -> None:
        holds.remove([])
        assert broker.asked == []

    def test_one_that_a_broker_does_not_list_yet_is_known_for_a_while(
        self, holds: HoldBindings, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        steady_s = 100.0
        monkeypatch.setattr("broker.kafka.holds.time", SimpleNamespace(monotonic=lambda: steady_s))
        broker.listed = []
        holds.add(MALLORY)
        assert (holds.of_user("mallory"), holds.of_user("alice")) == ([MALLORY], [])
        # All brokers have heard of it: that it is not listed means that somebody removed it.
        steady_s += 3
        assert holds.of_user("mallory") == []

    def test_one_that_we_removed_is_not_known_any_more(self, holds: HoldBindings, broker: Broker) -> None:
        broker.listed = []
        holds.add(MALLORY)
        holds.remove([MALLORY])
        assert holds.of_user("mallory") == []

    def test_one_that_kafka_did_not_take_or_not_remove_stays_as_it_was(
        self, holds: HoldBindings, broker: Broker
    ) -> None:
        broker.errors = {CreateAclsRequest: NOT_CONTROLLER}
        with pytest.raises(BrokerUnreachableError):
            holds.add(MALLORY)
        assert holds.of_user("mallory") == []
        broker.errors, broker.listed = {}, []
        holds.add(MALLORY)
        broker.errors = {DeleteAclsRequest: NOT_CONTROLLER}
        with pytest.raises(BrokerUnreachableError):
            holds.remove([MALLORY])
        assert holds.of_user("mallory") == [MALLORY]

    @pytest.mark.parametrize(
        "change",
        [
            {"permission": "allow"},
            {"pattern": "prefixed"},
            {"host": "10.0.0.5"},
            {"name": "orders"},
            {"principal": "Group:staff"},
        ],
        ids=str,
    )
    def test_an_acl_that_is_no_hold_of_all_hosts_is_not_read(
        self, holds: HoldBindings, acls: Acls, change: dict[str, Any]
    ) -> None:
        acls.create([replace(Acl(AclResource.TOPIC, MALLORY.name, "User:mallory", "write"), **change)])
        assert (holds.of_user("mallory"), holds.all()) == ([], [])

    @pytest.mark.parametrize("user", ["", "*", "ANONYMOUS"])
    def test_everybody_is_never_held(self, holds: HoldBindings, broker: Broker, user: str) -> None:
        with pytest.raises(RequestRefusedError, match="is not allowed"):
            holds.add(replace(MALLORY, user=user))
        assert broker.acls == []

import re
from dataclasses import replace

import pytest

from broker.errors import ClusterRequestError
from broker.kafka.acls import Acl, AclResource, Acls
from broker.tap.acl_owners import Owner, OwnerReason
from broker.tap.poll_placing import OwnerPatterns, OwnerRule, PollOwners, PollPlacement, Unattributed, UnattributedTopic


class Cluster(Acls):
    def __init__(self, *acls: Acl) -> None:
        self.now: frozenset[Acl] | None = frozenset(acls)
        self.is_open: bool | None = None

    def for_writers(self) -> frozenset[Acl]:
        if self.now is None:
            msg = "refused"
            raise ClusterRequestError(msg)
        return self.now

    def allows_without_acl(self) -> bool | None:
        return self.is_open


def writes(principal: str, topic: str) -> Acl:
    return Acl(AclResource.TOPIC, topic, principal, "write", "allow")


def from_file(topic: str, principal: str) -> OwnerPatterns:
    return OwnerPatterns([OwnerRule(principal, topic=re.compile(topic))])


def owners_of(cluster: Cluster, patterns: OwnerPatterns | None = None) -> PollOwners:
    owners = PollOwners(patterns, from_acls=True)
    owners.begin(cluster, 0.0)
    return owners


def test_entries_of_the_file_win_over_acls() -> None:
    cluster = Cluster(writes("User:alice", "orders"), writes("User:alice", "payments"))
    owners = owners_of(cluster, from_file("orders", "User:shop"))

    assert owners.of("orders", None) == Owner("User:shop")
    assert owners.of("payments", None) == Owner("User:alice")


def test_the_share_is_counted_by_source_and_the_rest_by_reason() -> None:
    shared = [writes(f"User:{name}", "shared") for name in "abcde"]
    cluster = Cluster(writes("User:alice", "orders"), writes("User:*", "logs"), *shared)
    owners = owners_of(cluster, from_file("file", "User:shop"))
    found = {"file": 1, "orders": 4, "shared": 2, "logs": 3} | {f"tmp-{number}": 9 - number for number in range(5)}

    placement = owners.placement((topic, None) for topic, count in found.items() for _ in range(count))

    assert placement == PollPlacement(
        45,
        1,
        4,
        (
            Unattributed(OwnerReason.EVERYBODY, 3, (UnattributedTopic("logs", 3),), 0),
            Unattributed(
                OwnerReason.NO_ACL, 35, tuple(UnattributedTopic(f"tmp-{number}", 9 - number) for number in range(3)), 2
            ),
            Unattributed(
                OwnerReason.SEVERAL, 2, (UnattributedTopic("shared", 2, ("User:a", "User:b", "User:c"), 2),), 0
            ),
        ),
    )


@pytest.mark.parametrize("is_open", [True, None, False])
def test_a_transactional_id_that_no_acl_names_is_nobody_s_only_if_brokers_say_so(is_open: bool | None) -> None:
    cluster = Cluster(writes("User:alice", "orders"))
    cluster.is_open = is_open
    owners = owners_of(cluster)

    assert owners.by_transactional_id
    assert owners.of("orders", None) == Owner("User:alice")
    assert owners.of("orders", "t") == (Owner(reason=OwnerReason.NOBODY) if is_open is False else Owner("User:alice"))


def test_a_transactional_id_belongs_to_the_principal_that_may_use_it() -> None:
    own = replace(writes("User:bob", "t"), resource=AclResource.TRANSACTIONAL_ID)
    owners = owners_of(Cluster(writes("User:alice", "orders"), writes("User:bob", "orders"), own))

    assert owners.of("orders", "t") == Owner("User:bob")
    assert owners.of("orders", None).reason is OwnerReason.SEVERAL


def test_without_the_right_it_does_not_begin() -> None:
    cluster = Cluster()
    cluster.now = None

    with pytest.raises(ClusterRequestError):
        owners_of(cluster)


def test_a_right_that_is_lost_later_leaves_only_the_file() -> None:
    cluster = Cluster(writes("User:alice", "orders"))
    owners = owners_of(cluster, from_file("file", "User:shop"))
    cluster.now = None

    owners.follow(cluster, 60.0)

    assert owners.of("orders", None) == Owner(reason=OwnerReason.UNREADABLE)
    assert owners.of("file", None) == Owner("User:shop")


def test_without_acls_nothing_is_asked_or_counted() -> None:
    cluster = Cluster()
    cluster.now = None
    owners = PollOwners(from_file("orders", "User:shop"), from_acls=False)

    owners.begin(cluster, 0.0)
    owners.follow(cluster, 60.0)

    assert owners.placement([("orders", None)]) is None
    assert owners.of("logs", None).principal is None
    assert not owners.by_transactional_id

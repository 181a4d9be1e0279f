from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.kafka.acls import Acl, AclResource
from broker.occupancy.acl_owners import AclOwners, Owner, OwnerReason

TOPIC, TRANSACTIONAL_ID = AclResource.TOPIC, AclResource.TRANSACTIONAL_ID
PRINCIPALS = ("User:a", "User:b", "User:c", "Group:a")
STRANGER = "User:in no ACL"
HOSTS = ("10.0.0.1", "10.0.0.2")
ELSEWHERE = "10.9.9.9"
NAMES = ("a", "ab", "abc", "b", "*x")

acls = st.builds(
    Acl,
    resource=st.sampled_from(AclResource),
    name=st.sampled_from((*NAMES, "*")),
    pattern=st.sampled_from(("literal", "prefixed")),
    principal=st.sampled_from((*PRINCIPALS, "User:*")),
    host=st.sampled_from((*HOSTS, "*", "*")),
    operation=st.sampled_from(("write", "all", "other")),
    permission=st.sampled_from(("allow", "allow", "deny")),
)
acl_sets = st.frozensets(acls, max_size=8)


def oracle(all_acls: Iterable[Acl], is_open: bool, principal: str, host: str, resource: AclResource, name: str) -> bool:
    """Kafka's rules, in their order."""
    has_acls = is_denied = is_allowed = False
    for acl in all_acls:
        if acl.resource != resource:
            continue
        if acl.pattern == "prefixed":
            if not name.startswith(acl.name):
                continue
        elif acl.name not in ("*", name):
            continue
        has_acls = True
        if acl.principal not in ("User:*", principal):
            continue
        if acl.host not in ("*", host):
            continue
        if acl.operation == "other":
            continue
        if acl.permission == "allow":
            is_allowed = True
        else:
            is_denied = True
    if not has_acls:
        return is_open
    return is_allowed and not is_denied


def oracle_writers(all_acls: Iterable[Acl], is_open: bool, resource: AclResource, name: str) -> dict[str, bool]:
    every = [*PRINCIPALS, STRANGER]
    return {
        who: any(oracle(all_acls, is_open, who, host, resource, name) for host in (*HOSTS, ELSEWHERE)) for who in every
    }


def acl(
    principal: str,
    name: str = "orders",
    *,
    allow: bool = True,
    resource: AclResource = TOPIC,
    host: str = "*",
    write: bool = True,
) -> Acl:
    return Acl(resource, name, principal, "write" if write else "other", "allow" if allow else "deny", host)


def owner_of(
    all_acls: Iterable[Acl], *topics: str, transactional_id: str | None = None, is_open: bool = False
) -> Owner:
    return AclOwners(all_acls, allows_without_acl=is_open).owner(frozenset(topics), transactional_id)


@given(
    acl_sets, st.booleans(), st.sets(st.sampled_from(NAMES), min_size=1, max_size=2), st.sampled_from((None, *NAMES))
)
def test_an_owner_is_the_only_one_who_might_have_written(
    all_acls: frozenset[Acl], is_open: bool, topics: set[str], transactional_id: str | None
) -> None:
    owner = owner_of(all_acls, *topics, transactional_id=transactional_id, is_open=is_open)

    parts = [(TOPIC, each) for each in topics]
    parts += [] if transactional_id is None else [(TRANSACTIONAL_ID, transactional_id)]
    writers = [oracle_writers(all_acls, is_open, *each) for each in parts]
    who_might = {who for who in (*PRINCIPALS, STRANGER) if all(each[who] for each in writers)}
    assert ({owner.principal} if owner.principal else set()) == (who_might if len(who_might) == 1 else set()) - {
        STRANGER
    }
    assert (owner.reason is None) == (owner.principal is not None)
    if owner.reason is OwnerReason.SEVERAL:
        assert set(owner.candidates) == who_might
    assert owner.reason is not OwnerReason.EVERYBODY or STRANGER in who_might
    assert owner.reason is not OwnerReason.NOBODY or not who_might


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([acl("User:a")], Owner("User:a")),
        ([acl("User:a"), acl("User:b", write=False)], Owner("User:a")),
        ([acl("User:a"), acl("User:b"), acl("User:b", allow=False)], Owner("User:a")),
        ([acl("User:a"), acl("User:b")], Owner(reason=OwnerReason.SEVERAL, candidates=("User:a", "User:b"))),
        ([acl("User:a"), acl("User:*", "*")], Owner(reason=OwnerReason.EVERYBODY)),
        ([acl("User:a"), acl("User:*", allow=False)], Owner(reason=OwnerReason.NOBODY)),
        # From elsewhere b may.
        (
            [acl("User:a"), acl("User:b"), acl("User:b", allow=False, host="10.0.0.1")],
            Owner(reason=OwnerReason.SEVERAL, candidates=("User:a", "User:b")),
        ),
        ([acl("User:a", "payments")], Owner(reason=OwnerReason.NO_ACL)),
    ],
)
@pytest.mark.parametrize("is_open", [False, True])
def test_why_there_is_no_owner_is_told(acls: list[Acl], expected: Owner, is_open: bool) -> None:
    assert owner_of(acls, "orders", is_open=is_open) == expected


ALONE = [acl("User:a")]
SHARED = [
    *(acl("User:a"), acl("User:b"), acl("User:b", "bills"), acl("User:c", "bills")),
    *(acl("User:b", "t", resource=TRANSACTIONAL_ID), acl("User:c", "u", resource=TRANSACTIONAL_ID)),
]


@pytest.mark.parametrize(
    ("acls", "topics", "transactional_id", "is_open", "expected"),
    [
        (SHARED, ["orders"], "t", False, Owner("User:b")),
        (SHARED, ["orders"], "u", False, Owner(reason=OwnerReason.NOBODY)),
        (SHARED, ["orders", "bills"], None, False, Owner("User:b")),
        # Where ACLs close a topic, the open transactional id does not matter.
        (ALONE, ["orders"], "t", True, Owner("User:a")),
        (ALONE, ["orders"], "t", False, Owner(reason=OwnerReason.NOBODY)),
        # Kafka's own topics do not count.
        (ALONE, ["orders", "__consumer_offsets"], None, False, Owner("User:a")),
        (ALONE, ["__consumer_offsets"], None, False, Owner(reason=OwnerReason.NO_ACL)),
    ],
)
def test_an_owner_may_write_all_topics_and_the_transactional_id(
    acls: list[Acl], topics: list[str], transactional_id: str | None, is_open: bool, expected: Owner
) -> None:
    assert owner_of(acls, *topics, transactional_id=transactional_id, is_open=is_open) == expected


def test_an_owner_does_not_depend_on_what_was_asked_before() -> None:
    owners = AclOwners(SHARED, allows_without_acl=False)
    for transactional_id in ("t", None, "u", "t"):
        expected = owner_of(SHARED, "orders", transactional_id=transactional_id)
        assert owners.owner(frozenset({"orders"}), transactional_id) == expected

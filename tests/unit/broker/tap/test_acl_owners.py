from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.kafka.acls import Acl, AclResource
from broker.tap.acl_owners import AclHistory, AclRules, Owner, OwnerReason, Writers

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
names = st.sampled_from(NAMES)


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


def history(*sets: Iterable[Acl] | None, is_open: bool = False, every_seconds: float = 60.0) -> AclHistory:
    read = AclHistory(allows_without_acl=is_open)
    for number, each in enumerate(sets):
        read.read(None if each is None else frozenset(each), number * every_seconds)
    return read


@given(acl_sets, st.booleans(), st.sampled_from(AclResource), names)
def test_each_principal_may_write_from_where_kafka_lets_it(
    all_acls: frozenset[Acl], is_open: bool, resource: AclResource, name: str
) -> None:
    rules = AclRules(all_acls, allows_without_acl=is_open)

    for principal in (*PRINCIPALS, STRANGER):
        for host in (*HOSTS, ELSEWHERE):
            expected = oracle(all_acls, is_open, principal, host, resource, name)
            assert rules.may_write(principal, host, resource, name) == expected


@given(acl_sets, st.booleans(), st.sampled_from(AclResource), names)
def test_writers_are_all_who_may_write_from_some_host(
    all_acls: frozenset[Acl], is_open: bool, resource: AclResource, name: str
) -> None:
    writers = AclRules(all_acls, allows_without_acl=is_open).writers(resource, name)

    expected = oracle_writers(all_acls, is_open, resource, name)
    assert {who: who in writers for who in expected} == expected
    assert writers.everybody == expected[STRANGER]
    assert STRANGER not in writers.names


@given(
    st.lists(acl_sets, min_size=1, max_size=3), st.booleans(), st.sampled_from(NAMES), st.sampled_from((None, *NAMES))
)
def test_an_owner_is_the_only_one_who_might_have_written(
    sets: list[frozenset[Acl]], is_open: bool, topic: str, transactional_id: str | None
) -> None:
    owner = history(*sets, is_open=is_open).owner(topic, transactional_id)

    def might(who: str) -> bool:
        both = [(TOPIC, topic)] if transactional_id is None else [(TOPIC, topic), (TRANSACTIONAL_ID, transactional_id)]
        return all(any(oracle_writers(each, is_open, *one)[who] for each in sets) for one in both)

    who_might = {who for who in (*PRINCIPALS, STRANGER) if might(who)}
    assert ({owner.principal} if owner.principal else set()) == (who_might if len(who_might) == 1 else set()) - {
        STRANGER
    }
    assert (owner.reason is None) == (owner.principal is not None)
    if owner.reason is OwnerReason.SEVERAL:
        assert set(owner.candidates) == who_might


@given(*[st.builds(Writers, st.frozensets(st.sampled_from(PRINCIPALS)), st.booleans())] * 2)
def test_sets_of_writers_are_joined_and_cut_like_sets(one: Writers, other: Writers) -> None:
    for who in (*PRINCIPALS, STRANGER):
        assert (who in (one | other)) == (who in one or who in other)
        assert (who in (one & other)) == (who in one and who in other)


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
        (None, Owner(reason=OwnerReason.UNREADABLE)),
    ],
)
@pytest.mark.parametrize("is_open", [False, True])
def test_why_there_is_no_owner_is_told(acls: list[Acl] | None, expected: Owner, is_open: bool) -> None:
    assert history(acls, is_open=is_open).owner("orders", None) == expected


def test_the_owner_of_a_transactional_id_may_write_both_it_and_the_topic() -> None:
    shared = [acl("User:a"), acl("User:b")]
    own = [acl("User:b", "t", resource=TRANSACTIONAL_ID), acl("User:c", "u", resource=TRANSACTIONAL_ID)]

    assert history(shared + own).owner("orders", "t") == Owner("User:b")
    assert history(shared + own).owner("orders", "u") == Owner(reason=OwnerReason.NOBODY)


def test_where_acls_close_a_topic_the_open_transactional_id_does_not_matter() -> None:
    assert history([acl("User:a")], is_open=True).owner("orders", "t") == Owner("User:a")
    assert history([acl("User:a")], is_open=False).owner("orders", "t") == Owner(reason=OwnerReason.NOBODY)


def test_a_change_of_owners_places_nothing_until_old_writes_have_been_seen() -> None:
    before, after = [acl("User:a")], [acl("User:b")]
    both = Owner(reason=OwnerReason.SEVERAL, candidates=("User:a", "User:b"))

    assert history(before, after).owner("orders", None) == both
    assert history(before, *[after] * 3).owner("orders", None) == both
    assert history(before, *[after] * 4).owner("orders", None) == Owner("User:b")


def test_a_changed_acl_replaces_the_cached_owner() -> None:
    read = history([acl("User:a")])
    assert read.owner("orders", None) == Owner("User:a")

    read.read(frozenset([acl("User:b")]), 60)

    assert read.owner("orders", None).reason is OwnerReason.SEVERAL


def test_rounds_that_follow_one_another_at_once_keep_acls_for_twenty_seconds() -> None:
    before, after = [acl("User:a")], [acl("User:b")]

    assert history(before, *[after] * 20, every_seconds=1).owner("orders", None).principal is None
    assert history(before, *[after] * 21, every_seconds=1).owner("orders", None) == Owner("User:b")


def test_a_right_that_returns_places_again_once_the_blind_time_is_over() -> None:
    acls = [acl("User:a")]

    assert history(acls, None, acls).owner("orders", None) == Owner(reason=OwnerReason.UNREADABLE)
    assert history(acls, None, *[acls] * 4).owner("orders", None) == Owner("User:a")

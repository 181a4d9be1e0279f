"""On which clusters, and on whom, new producer ids can be refused: each case that is not proven says why."""

from dataclasses import replace
from typing import Any

import pytest

from broker.cluster.acl_bindings import AclBinding
from broker.cluster.broker_settings import AUTHORIZER
from broker.cluster.refusal_bindings import ALLOW_EVERYONE, denials
from broker.cluster.refusal_facts import RefusalFacts
from broker.leases.refusal_rules import (
    ALLOW_EVERYONE_SETTING,
    SUPER_USERS_SETTING,
    trouble_of_cluster,
    trouble_of_principal,
)
from wire.holds import HOLD_AUTHORIZER

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
# As brokers show it: the values of an authorizer's own settings are hidden.
BROKER = {AUTHORIZER: STANDARD, ALLOW_EVERYONE_SETTING: None}
OPEN = RefusalFacts({1: BROKER, 2: BROKER}, (), (), has_hardcode=False, ordinary_on=frozenset({1, 2}))
HALF_REFUSED = "User:bob is denied IdempotentWrite on the cluster or Write on topic 'hardcode', not both, and not by us"
HOST = "10.0.0.5"


def allow(operation: str, principal: str = "User:*", **more: Any) -> AclBinding:
    return AclBinding("cluster", "kafka-cluster", principal, operation, "allow", **more)


def topic(name: str, principal: str, operation: str = "write", **more: Any) -> AclBinding:
    return AclBinding("topic", name, principal, operation, **{"permission": "allow", **more})


class TestOnACluster:
    @pytest.mark.parametrize(
        "facts",
        [
            OPEN,
            replace(OPEN, settings={1: BROKER | {AUTHORIZER: HOLD_AUTHORIZER}}),
            replace(OPEN, settings={1: BROKER | {ALLOW_EVERYONE_SETTING: "true"}}, ordinary_on=frozenset()),
            # A dry run does not try.
            replace(OPEN, ordinary_on=None),
            # With an ACL for everyone it does not matter what is allowed without ACLs.
            replace(OPEN, cluster=(ALLOW_EVERYONE,), settings={1: {AUTHORIZER: STANDARD}}, ordinary_on=None),
            replace(OPEN, cluster=(allow("idempotent_write"), allow("all", "User:admin"))),
            # Others of ours are in force.
            replace(OPEN, cluster=(ALLOW_EVERYONE, denials("User:bob")[0]), topics=(denials("User:bob")[1],)),
        ],
    )
    def test_they_work_where_all_may_ask_without_acls_or_by_one_for_everyone(self, facts: RefusalFacts) -> None:
        assert trouble_of_cluster(facts) == ""

    @pytest.mark.parametrize(
        ("facts", "why"),
        [
            (
                replace(OPEN, settings={1: BROKER, 2: BROKER | {AUTHORIZER: "com.acme.Ranger"}, 3: {}}),
                "brokers 2, 3 have no StandardAuthorizer",
            ),
            (replace(OPEN, has_hardcode=True), "there is a topic 'hardcode', which a refusal would close to everybody"),
            (
                replace(OPEN, settings={1: BROKER, 2: {AUTHORIZER: STANDARD}}),
                "broker 2 has no allow.everyone.if.no.acl.found=true",
            ),
            (
                replace(OPEN, settings={1: BROKER | {ALLOW_EVERYONE_SETTING: "false"}}),
                "broker 1 has no allow.everyone.if.no.acl.found=true",
            ),
            (
                replace(OPEN, ordinary_on=frozenset({1})),
                "broker 2 has a hidden value of allow.everyone.if.no.acl.found, and the enforcer's own user is allowed "
                "all there anyway: run it as a user that is no super user",
            ),
            (
                replace(OPEN, cluster=(allow("all", "User:admin"),)),
                "the cluster has ACLs, and none that allows everyone: to add that one would open it",
            ),
            (
                replace(OPEN, cluster=(allow("all", host=HOST), allow("create"))),
                "the cluster has ACLs, and none that allows everyone: to add that one would open it",
            ),
            (
                replace(OPEN, cluster=(ALLOW_EVERYONE, denials("User:bob")[0])),
                HALF_REFUSED,
            ),
            (
                replace(OPEN, cluster=(ALLOW_EVERYONE, replace(denials("User:bob")[0], operation="all"))),
                HALF_REFUSED,
            ),
            (
                replace(OPEN, cluster=(ALLOW_EVERYONE, replace(denials("User:bob")[0], host=HOST))),
                HALF_REFUSED,
            ),
            (
                replace(OPEN, topics=(denials("User:bob")[1],)),
                HALF_REFUSED,
            ),
        ],
    )
    def test_they_do_not_elsewhere(self, facts: RefusalFacts, why: str) -> None:
        assert trouble_of_cluster(facts) == why


class TestOnAPrincipal:
    @pytest.mark.parametrize(
        "acl",
        [
            topic("orders", "User:alice"),
            topic("orders", "User:mallory", "read"),
            topic("orders", "User:*", "other"),
            topic("orders", "User:mallory", permission="deny"),
        ],
    )
    def test_they_work_if_no_acl_lets_it_write(self, acl: AclBinding) -> None:
        assert trouble_of_principal(replace(OPEN, topics=(acl,)), "User:mallory") == ""

    @pytest.mark.parametrize(
        "acl",
        [
            topic("orders", "User:mallory"),
            topic("*", "User:*", "all"),
            topic("orders", "User:mallory", host=HOST),
            topic("orders", "User:*", pattern="prefixed"),
        ],
    )
    def test_they_do_not_if_one_does(self, acl: AclBinding) -> None:
        why = trouble_of_principal(replace(OPEN, topics=(acl,)), "User:mallory")
        assert why.startswith(f"an ACL allows {acl.principal} to write to topic {acl.name!r} ({acl.pattern})")

    def test_nor_on_a_super_user_as_far_as_brokers_show_them(self) -> None:
        hidden, shown = BROKER | {SUPER_USERS_SETTING: None}, BROKER | {SUPER_USERS_SETTING: "User:root; User:mallory"}
        facts = replace(OPEN, settings={1: hidden, 2: shown})
        assert trouble_of_principal(facts, "User:mallory") == "broker 2 has User:mallory among its super.users"
        assert trouble_of_principal(facts, "User:mal") == ""

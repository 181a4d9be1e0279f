"""`pid-quota enforce --lever refuse` on a real broker without the class, decisions by hand."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from broker.cluster.acl_bindings import AclBinding, AclBindings
from broker.cluster.quota_entity import QuotaEntity
from broker.cluster.refusal_bindings import ALLOW_EVERYONE, denials
from broker.cluster.refusal_facts import RefusalLook
from broker.leases.refusal_rules import trouble_of_cluster
from broker.local.local_broker import DEFAULT_USERS, LocalBroker
from tables.delta import create_missing
from tests.broker.enforce_kit import EnforcerProcess, Steady, actions, decide, end_orders, quotas_of
from tests.broker.hold_kit import Asker, binding, bound, send_by_confluent_kafka
from tests.broker_kit import new_topic, wait_until

CLUSTER_AUTHORIZATION_FAILED = KafkaError.CLUSTER_AUTHORIZATION_FAILED
OURS = {ALLOW_EVERYONE, *denials("User:mallory")}


@pytest.fixture(scope="module")
def broker(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A broker of our own: an ACL on the cluster concerns everybody."""
    users = {**DEFAULT_USERS, "enforcer": "enforcer-secret"}
    with LocalBroker(tmp_path_factory.mktemp("refusing"), users, jars=jars) as running:
        yield running


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    create_missing(str(tmp_path))
    return tmp_path


@pytest.fixture
def acls(broker: LocalBroker) -> Iterator[AclBindings]:
    """The ACLs of the broker: none before, and none afterwards."""
    end_orders(broker)
    with AclBindings({"bootstrap_servers": broker.admin_servers}) as bindings:
        yield bindings
        wait_until(lambda: found(bindings) == set(), "no ACL is left")


def found(acls: AclBindings) -> set[AclBinding]:
    return {each for kind in ("cluster", "topic", "group") for each in acls.find(kind)}


def process(broker: LocalBroker, tables: Path, *arguments: str) -> EnforcerProcess:
    """An enforcer whose user is no super user."""
    settings = tables / "enforcer.properties"
    own = broker.client_config("enforcer")
    settings.write_text("".join(f"{name}={value}\n" for name, value in own.items()))
    enforcer = EnforcerProcess(broker, tables, "--kafka-config", str(settings), *arguments)
    enforcer.connect_to(broker.bootstrap_servers)
    return enforcer


@contextmanager
def refusing(broker: LocalBroker, tables: Path, *arguments: str) -> Iterator[EnforcerProcess]:
    enforcer = process(broker, tables, "--lever", "refuse", *arguments)
    enforcer.start()
    try:
        if "--apply" in arguments:
            enforcer.wait_for("lock", "holding")
        yield enforcer
    finally:
        code, errors = enforcer.end()
    assert (code, errors) == (0, "")


def fatal_error(settings: dict[str, str], topic: str) -> int:
    """What ends a new producer of confluent-kafka."""
    errors: list[KafkaError] = []
    producer = Producer({**settings, "enable.idempotence": True, "log_level": 0, "error_cb": errors.append})
    producer.produce(topic, b"one message")

    def is_over() -> bool:
        try:
            producer.poll(0.1)
        except KafkaException as error:
            errors.append(error.args[0])
        return any(error.fatal() for error in errors)

    wait_until(is_over, "it fails")
    return next(int(error.code()) for error in errors if error.fatal())


def make_topic(settings: dict[str, str], name: str) -> None:
    admin = AdminClient({**settings})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result()


def test_a_dry_run_says_what_it_could_do_and_changes_nothing(
    broker: LocalBroker, tables: Path, acls: AclBindings
) -> None:
    decide(tables, "User:mallory")
    with refusing(broker, tables) as enforcer:
        enforcer.wait_for("lever", "new producer ids can be refused. A refusal does not end by itself")
        enforcer.wait_for("lever", "tried with --apply only")
        enforcer.wait_for("throttled")
    assert (found(acls), actions(tables)) == (set(), [])


def test_new_producers_of_mallory_fail_until_the_lease_ends_and_nobody_else_feels_it(
    broker: LocalBroker, tables: Path, acls: AclBindings
) -> None:
    topic = new_topic(broker, "orders")
    known = Steady(broker.client_config("mallory"), topic, "known")
    known.send()
    with refusing(broker, tables, "--apply") as enforcer, Asker(broker) as mallory, Asker(broker, "alice") as alice:
        decide(tables, "User:mallory", seconds=12)
        enforcer.wait_for("throttled", "its known PIDs go on")
        wait_until(lambda: mallory.error() == CLUSTER_AUTHORIZATION_FAILED, "she is refused")
        assert fatal_error(broker.client_config("mallory"), topic) == CLUSTER_AUTHORIZATION_FAILED
        known.send()
        assert known.throttles_s == []
        assert alice.error() == 0
        send_by_confluent_kafka(broker.client_config("alice"), topic, "alice")
        # What everyone was allowed without ACLs, on the cluster too.
        make_topic(broker.client_config("alice"), "made-by-alice")
        assert found(acls) == OURS
        enforcer.wait_for("restored")
        wait_until(lambda: mallory.error() == 0, "she is not")
        send_by_confluent_kafka(broker.client_config("mallory"), topic, "again")
    assert actions(tables) == ["applying", "in_force", "restoring", "restored"]
    assert (found(acls), quotas_of(broker)) == (set(), {})


def test_what_a_killed_enforcer_left_stays_until_the_next_one_ends_it(
    broker: LocalBroker, tables: Path, acls: AclBindings
) -> None:
    killed = process(broker, tables, "--lever", "refuse", "--apply")
    killed.start()
    with Asker(broker) as mallory:
        try:
            killed.wait_for("lock", "holding")
            until = decide(tables, "User:mallory", seconds=15)
            killed.wait_for("throttled")
        finally:
            killed.end(signal.SIGKILL)
        time.sleep(max(0.0, until.timestamp() + 1 - time.time()))
        assert (mallory.error(), found(acls)) == (CLUSTER_AUTHORIZATION_FAILED, OURS)
        with refusing(broker, tables, "--apply") as enforcer:
            enforcer.wait_for("lock", "open leases found: 1")
            enforcer.wait_for("restored")
            wait_until(lambda: mallory.error() == 0, "she is not refused")
            wait_until(lambda: found(acls) == set(), "nothing is left")
    assert actions(tables) == ["applying", "in_force", "restoring", "restored"]


@pytest.mark.slow
def test_a_cluster_that_somebody_closed_by_removing_the_allow_is_opened_again(
    broker: LocalBroker, tables: Path, acls: AclBindings
) -> None:
    killed = process(broker, tables, "--lever", "refuse", "--apply")
    killed.start()
    try:
        killed.wait_for("lock", "holding")
        decide(tables, "User:mallory", seconds=300)
        killed.wait_for("throttled")
    finally:
        killed.end(signal.SIGKILL)
    with Asker(broker, "alice") as alice:
        acls.delete([ALLOW_EVERYONE])
        wait_until(lambda: alice.error() == CLUSTER_AUTHORIZATION_FAILED, "the cluster is closed")
        # It is closed to the enforcer's user as well, unless that has an ACL of its own or, as here, is a super user.
        enforcer = EnforcerProcess(broker, tables, "--lever", "refuse", "--apply")
        enforcer.start()
        try:
            enforcer.wait_for("relinquished", "someone else set it to none")
            wait_until(lambda: alice.error() == 0, "it is open")
        finally:
            assert enforcer.end() == (0, "")
    assert "relinquished" in actions(tables)


def test_the_kill_switch_ends_a_refusal_also_with_another_lever(
    broker: LocalBroker, tables: Path, acls: AclBindings
) -> None:
    with refusing(broker, tables, "--apply") as enforcer, Asker(broker) as mallory:
        decide(tables, "User:mallory", seconds=300)
        enforcer.wait_for("throttled")
        wait_until(lambda: mallory.error() == CLUSTER_AUTHORIZATION_FAILED, "she is refused")
        switch = process(broker, tables, "--release", "mallory")
        switch.start()
        assert switch.wait() == (0, "")
        wait_until(lambda: mallory.error() == 0, "she is released")


@pytest.mark.slow
def test_the_allow_for_everyone_stays_until_the_last_refusal_ends(
    broker: LocalBroker, tables: Path, acls: AclBindings
) -> None:
    with refusing(broker, tables, "--apply") as enforcer, Asker(broker) as mallory:
        decide(tables, "User:mallory", seconds=8)
        wait_until(lambda: mallory.error() == CLUSTER_AUTHORIZATION_FAILED, "she is refused")
        decide(tables, "User:alice", seconds=16)
        wait_until(lambda: found(acls) == {*OURS, *denials("User:alice")}, "both are refused")
        enforcer.wait_for("restored")
        wait_until(lambda: mallory.error() == 0, "she is not")
        assert found(acls) == {ALLOW_EVERYONE, *denials("User:alice")}
        wait_until(lambda: found(acls) == set(), "nothing is left")


@pytest.mark.slow
def test_the_allow_for_everyone_stays_if_the_cluster_has_got_other_acls(
    broker: LocalBroker, tables: Path, acls: AclBindings
) -> None:
    by_hand = binding(
        "kafka-cluster",
        "User:bob",
        kind=ResourceType.BROKER,
        operation=AclOperation.DESCRIBE,
        permission=AclPermissionType.ALLOW,
    )
    with refusing(broker, tables, "--apply") as enforcer, Asker(broker) as mallory, Asker(broker, "alice") as alice:
        decide(tables, "User:mallory", seconds=8)
        enforcer.wait_for("throttled")
        with bound(broker, by_hand):
            enforcer.wait_for("alert", "stays, although we added it: the cluster has got other ACLs since (1)")
            enforcer.wait_for("restored")
            wait_until(lambda: mallory.error() == 0, "she is not refused")
            assert alice.error() == 0
            assert ALLOW_EVERYONE in found(acls)
    acls.delete([ALLOW_EVERYONE])


def test_where_an_acl_gives_her_ids_all_the_same_she_gets_the_client_quota(
    broker: LocalBroker, tables: Path, acls: AclBindings
) -> None:
    allowed = binding("orders", permission=AclPermissionType.ALLOW)
    with bound(broker, allowed), refusing(broker, tables, "--apply", "--no-narrow") as enforcer:
        decide(tables, "User:mallory")
        enforcer.wait_for("throttled", "a client quota instead of a refusal: an ACL allows User:mallory to write")
        assert quotas_of(broker) == {QuotaEntity("mallory"): {"request_percentage": 0.01}}


def test_a_super_user_can_t_tell_whether_everyone_is_allowed(
    broker: LocalBroker, tables: Path, acls: AclBindings
) -> None:
    enforcer = EnforcerProcess(broker, tables, "--lever", "refuse", "--apply", "--no-narrow")
    enforcer.start()
    try:
        enforcer.wait_for("lever", "broker 1 has a hidden value of allow.everyone.if.no.acl.found")
        decide(tables, "User:mallory")
        enforcer.wait_for("throttled", "run it as a user that is no super user")
        assert quotas_of(broker) == {QuotaEntity("mallory"): {"request_percentage": 0.01}}
    finally:
        code, errors = enforcer.end()
    assert (code, errors) == (0, "")


def test_a_topic_named_hardcode_is_closed_to_nobody(broker: LocalBroker, tables: Path, acls: AclBindings) -> None:
    make_topic(broker.admin_config(), "hardcode")
    try:
        with refusing(broker, tables, "--apply") as enforcer:
            enforcer.wait_for("lever", "there is a topic 'hardcode', which a refusal would close to everybody")
    finally:
        admin = AdminClient({**broker.admin_config()})
        admin.delete_topics(["hardcode"])["hardcode"].result()


@pytest.mark.slow
def test_a_cluster_that_is_closed_without_acls_is_not_opened(jars: Path, tmp_path: Path) -> None:
    with (
        LocalBroker(tmp_path, jars=jars, allow_everyone_if_no_acl_found="false") as closed,
        AclBindings({"bootstrap_servers": closed.admin_servers}) as acls,
    ):
        facts = RefusalLook(acls, may_try=True).facts()
        assert "a hidden value of allow.everyone.if.no.acl.found" in trouble_of_cluster(facts)

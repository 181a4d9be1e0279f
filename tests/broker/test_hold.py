import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from broker.kafka.holds import HoldBindings
from broker.local.local_broker import LocalBroker
from jvm.jar_sets import kafka_classpath
from tests.kits.broker_kit import end_offset, new_topic, restart, transactional_producer, wait_until
from tests.kits.enforce_kit import Steady
from tests.kits.hold_kit import (
    LOADING,
    Asker,
    JavaProducers,
    PythonProducers,
    Waiting,
    binding,
    bound,
    end_s,
    hold,
    is_at_end,
    now_ms,
    send_by_confluent_kafka,
    send_by_kafka_python,
    unbind,
)
from wire.holds import HOLD_AUTHORIZER, MAX_HOLD_MS, HoldBinding

FOREVER = str(2**62)


def hold_name(until_ms: int, lease_id: str | None = None) -> str:
    return HoldBinding("mallory", until_ms, lease_id).name


@pytest.fixture(scope="module")
def broker(held_broker: LocalBroker) -> LocalBroker:
    return held_broker


@pytest.fixture(scope="module")
def topic(broker: LocalBroker) -> str:
    return new_topic(broker, "orders")


@pytest.fixture
def mallory(broker: LocalBroker) -> Iterator[Asker]:
    with Asker(broker) as asker:
        yield asker


def producers(client: str, jars: Path, settings: dict[str, str], topic: str) -> JavaProducers | PythonProducers:
    if client == "java":
        return JavaProducers(kafka_classpath(jars), settings, topic, 3)
    send = {"confluent-kafka": send_by_confluent_kafka, "kafka-python": send_by_kafka_python}[client]
    return PythonProducers(send, settings, topic, 3)


@pytest.mark.parametrize("client", ["confluent-kafka", "kafka-python", pytest.param("java", marks=pytest.mark.slow)])
def test_new_producers_wait_until_the_hold_ends_by_itself_and_nobody_else_feels_it(
    broker: LocalBroker, topic: str, jars: Path, client: str
) -> None:
    waiting = producers(client, jars, broker.client_config("mallory"), topic)
    known, alice = (
        Steady(broker.client_config("mallory"), topic, "known"),
        Steady(broker.client_config("alice"), topic, "alice"),
    )
    known.send(), alice.send()
    before = end_offset(broker, topic)
    held = hold(8)
    until_s = end_s(held)
    with bound(broker, held):
        waiting.start()
        sent = 0
        while time.time() < until_s - 3:
            known.send(), alice.send()
            sent += 2
            time.sleep(0.05)
        assert end_offset(broker, topic) == before + sent
        ends = waiting.ends()
    # Each retry is an error to the broker, which its log settings leave out.
    assert "INIT_PRODUCER_ID" not in broker.server_log.read_text()
    assert all(is_at_end(end, until_s) for end in ends), [end - until_s for end in ends]
    assert known.throttles_s + alice.throttles_s == []
    assert end_offset(broker, topic) == before + sent + 3


def test_a_hold_that_is_taken_away_lets_them_through_at_once(broker: LocalBroker, topic: str) -> None:
    held = hold(120)
    with bound(broker, held):
        waiting = Waiting(send_by_confluent_kafka, broker.client_config("mallory"), topic, "waited")
        time.sleep(1.5)
        assert waiting.ended_at is None
        unbind(broker, held)
        assert waiting.end() < end_s(held) - 1


def test_a_transactional_id_is_not_held(broker: LocalBroker, topic: str) -> None:
    with bound(broker, hold(60)):
        producer = transactional_producer(broker.client_config("mallory"), "mallory-tx")
        producer.begin_transaction()
        producer.produce(topic, b"value")
        producer.commit_transaction(30)


def test_a_producer_without_idempotence_is_not_held(broker: LocalBroker, topic: str) -> None:
    with bound(broker, hold(60)):
        producer = Producer({**broker.client_config("mallory"), "enable.idempotence": False})
        producer.produce(topic, b"value")
        assert producer.flush(30) == 0


def test_the_earliest_and_the_latest_of_several_holds(broker: LocalBroker, mallory: Asker) -> None:
    with bound(broker, hold(1), hold(3)):
        assert mallory.error() == LOADING
        time.sleep(1.5)
        assert mallory.error() == LOADING
        time.sleep(1.6)
        assert mallory.error() == 0


@pytest.mark.parametrize(
    "odd",
    [
        lambda: binding(hold_name(now_ms() + MAX_HOLD_MS + 60_000)),
        lambda: binding(f"pid-quota-hold:{FOREVER}"),
        lambda: binding(f"pid-quota-hold:{2**70}"),
        lambda: binding(hold_name(now_ms() + 60_000) + ":"),
        lambda: binding(hold_name(now_ms() + 60_000, "Ab12")),
        lambda: binding(hold_name(now_ms() + MAX_HOLD_MS + 60_000, "ab12")),
        lambda: binding("pid-quota-hold:"),
        lambda: binding("pid-quota-hold:soon"),
        lambda: binding(f"pid-quota-hold:0{now_ms() + 60_000}"),
        lambda: binding(f"pid-quota-hold:+{now_ms() + 60_000}"),
        lambda: binding(hold_name(now_ms() + 60_000).translate({ord("1"): "\u0661"})),
        lambda: binding(hold_name(now_ms() - 1000)),
        lambda: hold(60, "User:*"),
        lambda: hold(60, "User:alice"),
        lambda: hold(60, "Group:mallory"),
        lambda: hold(60, host="10.0.0.9"),
        lambda: binding(hold_name(now_ms() + 60_000), permission=AclPermissionType.ALLOW),
        lambda: binding(hold_name(now_ms() + 60_000), pattern=ResourcePatternType.PREFIXED),
        lambda: binding(hold_name(now_ms() + 60_000), operation=AclOperation.READ),
        lambda: binding(hold_name(now_ms() + 60_000), kind=ResourceType.GROUP, operation=AclOperation.READ),
    ],
    ids=[
        "too far ahead",
        "never",
        "no int64",
        "an empty lease",
        "no lease's id",
        "a lease's, too far ahead",
        "no end",
        "words",
        "zero before",
        "sign",
        "digits of another script",
        "past",
        "everybody",
        "alice",
        "another type",
        "another host",
        "allow",
        "prefixed",
        "another operation",
        "another resource",
    ],
)
def test_a_binding_that_is_not_exactly_a_hold_on_the_user_holds_nobody(
    broker: LocalBroker, mallory: Asker, odd: Callable[[], AclBinding]
) -> None:
    with bound(broker, odd()):
        assert mallory.error() == 0


def test_a_hold_from_her_host_alone(broker: LocalBroker, mallory: Asker) -> None:
    with bound(broker, hold(60, host="127.0.0.1")):
        assert mallory.error() == LOADING


def test_super_users_are_never_held(broker: LocalBroker) -> None:
    with (
        bound(broker, hold(60, "User:admin"), hold(60, "User:ANONYMOUS")),
        Asker(broker, "admin") as admin,
        Asker(broker, None) as inner,
    ):
        assert (admin.error(), inner.error()) == (0, 0)


@pytest.mark.parametrize("end", [pytest.param("stop", marks=pytest.mark.slow), "kill"])
def test_a_broker_that_begins_anew_knows_its_holds(broker: LocalBroker, end: str) -> None:
    with bound(broker, hold(120)):
        getattr(broker, end)()
        restart(broker)
        with Asker(broker) as mallory, Asker(broker, "alice") as alice:
            # A broker that has just begun has no producer ids for anybody.
            wait_until(lambda: alice.error() == 0, "alice gets one")
            assert mallory.error() == LOADING
    with Asker(broker) as mallory:
        wait_until(lambda: mallory.error() == 0, "the hold is gone")


def test_other_acls_mean_what_they_mean_to_the_stock_authorizer(broker: LocalBroker, topic: str) -> None:
    def write(user: str) -> list[str | None]:
        producer = Producer({**broker.client_config(user), "enable.idempotence": False, "log_level": 0})
        errors: list[str | None] = []
        producer.produce(topic, b"value", on_delivery=lambda error, _: errors.append(error.name() if error else None))
        assert producer.flush(30) == 0
        return errors

    with bound(broker, binding(topic)):
        assert (write("mallory"), write("alice")) == (["TOPIC_AUTHORIZATION_FAILED"], ["TOPIC_AUTHORIZATION_FAILED"])
        allow = binding(topic, "User:alice", permission=AclPermissionType.ALLOW)
        with bound(broker, allow):
            assert (write("mallory"), write("alice")) == (["TOPIC_AUTHORIZATION_FAILED"], [None])


def test_a_hold_denies_no_right(broker: LocalBroker, topic: str) -> None:
    allow = binding(topic, permission=AclPermissionType.ALLOW)
    with bound(broker, allow, hold(60)):
        Steady({**broker.client_config("alice")}, new_topic(broker, "other"), "alice").send()
        with Asker(broker) as mallory:
            assert mallory.error() == LOADING


class TestHoldBindings:
    @pytest.fixture
    def holds(self, broker: LocalBroker) -> Iterator[HoldBindings]:
        with HoldBindings({"bootstrap_servers": broker.admin_servers}) as client:
            yield client
            client.remove(client.all())
            wait_until(lambda: client.all() == [], "none is left")

    @pytest.mark.parametrize("lease_id", [None, "0123456789abcdef0123456789abcdef"])
    def test_a_hold_is_set_moved_and_removed(self, holds: HoldBindings, mallory: Asker, lease_id: str | None) -> None:
        first, second = (HoldBinding("mallory", now_ms() + each, lease_id) for each in (60_000, 120_000))
        holds.add(first)
        wait_until(lambda: holds.all() == [first] and mallory.error() == LOADING, "it is in force")
        holds.add(second)
        holds.remove([first])
        wait_until(lambda: holds.all() == [second], "it has its new end")
        assert (holds.of_user("mallory"), mallory.error()) == ([second], LOADING)
        holds.remove([second])
        wait_until(lambda: holds.all() == [] and mallory.error() == 0, "it is gone")

    def test_setting_and_removing_without_a_pause_leaves_nothing(self, holds: HoldBindings, mallory: Asker) -> None:
        for number in range(10):
            hold = HoldBinding("mallory", now_ms() + 60_000, f"{number}")
            holds.add(hold)
            holds.remove([hold])
        time.sleep(0.2)
        assert (holds.all(), mallory.error()) == ([], 0)

    def test_strange_names_are_held_as_they_are(self, holds: HoldBindings) -> None:
        strange = HoldBinding('a b\n"ü;*=,', now_ms() + 60_000)
        holds.add(strange)
        wait_until(lambda: holds.all() == [strange], "it is set")

    def test_brokers_say_which_authorizer_they_have(self, holds: HoldBindings) -> None:
        assert holds.authorizers() == {1: HOLD_AUTHORIZER}

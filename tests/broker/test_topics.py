import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from broker.errors import BrokerUnreachableError, TopicError
from broker.kafka.topic_setup import TopicSetup, plan_topics
from broker.kafka.topics import admin_client, create_topics, require_topic
from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import new_topic, wait_until
from wire.topics import EVENT_PARTITIONS, OWN_TOPICS


def test_the_plugin_creates_the_same_topics(broker: LocalBroker) -> None:
    outcomes = TopicSetup(broker.admin_config()).describe(plan_topics(EVENT_PARTITIONS))
    found = {each.name: (each.action, each.differences) for each in outcomes if each.name in OWN_TOPICS}
    assert found == dict.fromkeys(OWN_TOPICS, ("exists", []))


def test_a_topic_with_more_replicas_than_brokers_names_the_way_out(broker: LocalBroker) -> None:
    with pytest.raises(
        TopicError, match=r"can't create topic '[\w-]+' \(.*\): start the other brokers, or .*--replication-factor N"
    ):
        create_topics(admin_client(broker.admin_config()), [NewTopic("three-replicas", 1, 3)])


def test_a_topic_that_is_there_tells_its_partitions(broker: LocalBroker) -> None:
    topic, admin = new_topic(broker, "three", partitions=3), AdminClient({**broker.admin_config()})
    wait_until(lambda: topic in admin.list_topics(timeout=30).topics, "the broker to hear of it")

    assert require_topic(broker.client_config("alice"), topic) == 3


def test_an_unreachable_broker_is_said_in_one_line() -> None:
    with pytest.raises(
        BrokerUnreachableError, match=r"127\.0\.0\.1:1 within 0\.5 s .*check that it runs, the address"
    ) as caught:
        require_topic({"bootstrap.servers": "127.0.0.1:1"}, "any", timeout_s=0.5)
    assert "\n" not in str(caught.value)


def test_a_host_name_that_does_not_resolve_is_named() -> None:
    with pytest.raises(BrokerUnreachableError, match=r"\(host names that do not resolve: nowhere\.invalid\)"):
        require_topic({"bootstrap.servers": "nowhere.invalid:9092,127.0.0.1:1"}, "any", timeout_s=2)

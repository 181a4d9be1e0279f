"""Creates the tap's topics, and requires that a topic exists."""

import time
from collections.abc import Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from broker.errors import BrokerUnreachableError, TopicError, TopicMissingError
from wire.topics import topic_settings

DEFAULT_PARTITIONS = 4
DEFAULT_TIMEOUT_S = 15.0

_SEEN_POLL_S = 0.05
_NEW_TOPIC_S = 5.0
_ALREADY_THERE = "TOPIC_ALREADY_EXISTS"


def ensure_topics(
    config: Mapping[str, str],
    *,
    partitions: int = DEFAULT_PARTITIONS,
    replication_factor: int = -1,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> None:
    """Create the missing topics of those the tap writes; leave existing ones as they are.

    Args:
        config: confluent-kafka settings of a user with CREATE.
        partitions: of each topic; all events of a principal are in one.
        replication_factor: copies of each; -1 takes the broker's `default.replication.factor`.
        timeout_s: request timeout.

    Raises:
        BrokerUnreachableError: no broker answers.
        TopicError: Kafka refused to create a topic.
    """
    admin = _admin(config)
    existing = _existing_topics(admin, config, timeout_s)
    wanted = [
        NewTopic(name, num_partitions=partitions, replication_factor=replication_factor, config=settings)
        for name, settings in topic_settings().items()
        if name not in existing
    ]
    if not wanted:
        return
    _create(admin, config, wanted, timeout_s)


def ensure_topic(
    config: Mapping[str, str], name: str, settings: Mapping[str, str], timeout_s: float = DEFAULT_TIMEOUT_S
) -> None:
    """Create a topic of one partition if it is missing; arguments and errors as of `ensure_topics`."""
    admin = _admin(config)
    if name not in _existing_topics(admin, config, timeout_s):
        _create(admin, config, [NewTopic(name, 1, -1, config=dict(settings))], timeout_s)


def require_topic(config: Mapping[str, str], topic: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> int:
    """Return the number of a topic's partitions.

    Args:
        config: confluent-kafka settings.
        topic: its name.
        timeout_s: request timeout.

    Returns:
        The number of its partitions.

    Raises:
        BrokerUnreachableError: no broker answers.
        TopicMissingError: there is no such topic, or this user may not DESCRIBE it.
    """
    found = _existing_topics(_admin(config), config, timeout_s)
    if topic not in found:
        msg = (
            f"topic {topic!r} does not exist on {config['bootstrap.servers']}, or this user lacks DESCRIBE on it: "
            f"start `pid-quota tap`, which creates it, or create it by hand"
        )
        raise TopicMissingError(msg)
    return found[topic]


def await_topic(config: Mapping[str, str], topic: str) -> None:
    """Wait for a topic that may have been created just now, so that not every broker knows it; raises as above."""
    give_up_at = time.monotonic() + _NEW_TOPIC_S
    while True:
        try:
            require_topic(config, topic)
        except TopicMissingError:
            if time.monotonic() > give_up_at:
                raise
            time.sleep(_SEEN_POLL_S)
        else:
            return


def _create(admin: AdminClient, config: Mapping[str, str], wanted: list[NewTopic], timeout_s: float) -> None:
    for name, created in admin.create_topics(wanted, operation_timeout=timeout_s, request_timeout=timeout_s).items():
        try:
            created.result()
        except KafkaException as error:
            # Another tap was faster.
            if error.args[0].name() != _ALREADY_THERE:
                msg = f"can't create topic {name!r} ({error.args[0].str()}): create it by hand or grant CREATE"
                raise TopicError(msg) from error
    _wait_until_seen(admin, config, {topic.topic for topic in wanted}, timeout_s)


def _admin(config: Mapping[str, str]) -> AdminClient:
    # librdkafka would log each refused connection to stderr; we raise one error.
    return AdminClient({**config, "log_level": 0})


def _existing_topics(admin: AdminClient, config: Mapping[str, str], timeout_s: float) -> dict[str, int]:
    try:
        found = admin.list_topics(timeout=timeout_s).topics
    except KafkaException as error:
        raise _unreachable(config, timeout_s, error.args[0].str()) from error
    return {name: len(about.partitions) for name, about in found.items() if about.error is None}


def _wait_until_seen(admin: AdminClient, config: Mapping[str, str], names: set[str], timeout_s: float) -> None:
    # Brokers learn of new topics a moment after the controller has created them.
    give_up_at = time.monotonic() + timeout_s
    while not names <= _existing_topics(admin, config, timeout_s).keys():
        if time.monotonic() > give_up_at:
            msg = (
                f"topics {', '.join(sorted(names))} were created, but are not visible after {timeout_s:g} s: try again"
            )
            raise TopicError(msg)
        time.sleep(_SEEN_POLL_S)


def _unreachable(config: Mapping[str, str], timeout_s: float, reason: str) -> BrokerUnreachableError:
    return BrokerUnreachableError(
        f"no Kafka broker answers at {config['bootstrap.servers']} within {timeout_s:g} s ({reason}): "
        f"check the address, the listener's security settings and that the broker runs"
    )

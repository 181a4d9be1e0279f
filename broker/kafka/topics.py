"""Creates topics, and checks that a topic exists."""

import time
from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from broker.errors import TopicError, TopicMissingError
from broker.kafka.errors import name_of, reason_of, unreachable
from wire.topics import COMPACTED, topic_settings

DEFAULT_PARTITIONS = 4
DEFAULT_TIMEOUT_S = 15.0

_SEEN_POLL_S = 0.05
_NEW_TOPIC_S = 5.0


def admin_client(config: Mapping[str, str]) -> AdminClient:
    """Return confluent-kafka's admin client; it logs nothing, because we raise errors."""
    return AdminClient({**config, "log_level": 0})


def ensure_topics(
    config: Mapping[str, str], *, partitions: int = DEFAULT_PARTITIONS, replication_factor: int = -1
) -> None:
    """Create missing topics that the tap writes; leave existing ones unchanged."""
    wanted = topic_settings().items()
    _ensure(config, [NewTopic(name, partitions, replication_factor, config=settings) for name, settings in wanted])


def ensure_topic(config: Mapping[str, str], name: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
    """Create a compacted topic of one partition if it is missing."""
    _ensure(config, [NewTopic(name, 1, -1, config=COMPACTED)], timeout_s)


def require_topic(config: Mapping[str, str], topic: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> int:
    """Return the number of a topic's partitions."""
    found = existing_topics(admin_client(config), config, timeout_s)
    if topic not in found:
        msg = (
            f"topic {topic!r} does not exist on {config['bootstrap.servers']}, or this user lacks DESCRIBE on it: "
            f"start `pid-quota tap`, which creates it, or create it by hand"
        )
        raise TopicMissingError(msg)
    return found[topic]


def await_topic(config: Mapping[str, str], topic: str) -> None:
    """Wait for a topic that was just created, so that not every broker knows it; raises TopicMissingError."""
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


def existing_topics(
    admin: AdminClient, config: Mapping[str, str], timeout_s: float = DEFAULT_TIMEOUT_S
) -> dict[str, int]:
    """Return the number of partitions of each topic."""
    try:
        found = admin.list_topics(timeout=timeout_s).topics
    except KafkaException as error:
        where = f"{config['bootstrap.servers']} within {timeout_s:g} s"
        raise unreachable(where, reason_of(error)) from error
    return {name: len(about.partitions) for name, about in found.items() if about.error is None}


def create_topics(
    admin: AdminClient, wanted: Sequence[NewTopic], timeout_s: float = DEFAULT_TIMEOUT_S
) -> dict[str, bool]:
    """Create topics; return for each whether we created it, since another process may be faster."""
    created = {}
    answers = admin.create_topics(list(wanted), operation_timeout=timeout_s, request_timeout=timeout_s)
    for name, answer in answers.items():
        created[name] = True
        try:
            answer.result()
        except KafkaException as error:
            if name_of(error) != "TOPIC_ALREADY_EXISTS":
                msg = f"can't create topic {name!r} ({reason_of(error)}): create it by hand or grant CREATE"
                raise TopicError(msg) from error
            created[name] = False
    return created


def _ensure(config: Mapping[str, str], wanted: Sequence[NewTopic], timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
    admin = admin_client(config)
    existing = existing_topics(admin, config, timeout_s)
    missing = [topic for topic in wanted if topic.topic not in existing]
    if not missing:
        return
    names = create_topics(admin, missing, timeout_s)
    # Brokers learn of new topics shortly after the controller has created them.
    give_up_at = time.monotonic() + timeout_s
    while not names.keys() <= existing_topics(admin, config, timeout_s).keys():
        if time.monotonic() > give_up_at:
            msg = (
                f"topics {', '.join(sorted(names))} were created, but are not visible after {timeout_s:g} s: try again"
            )
            raise TopicError(msg)
        time.sleep(_SEEN_POLL_S)

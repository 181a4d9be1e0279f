"""Creates topics, and checks that a topic exists."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata
from confluent_kafka.cimpl import NewTopic

from broker.errors import TopicError, TopicMissingError
from broker.kafka.errors import login_refused, name_of, reason_of, unreachable
from broker.kafka.silence import no_answer, result_of

DEFAULT_TIMEOUT_S = 15.0

_LOGIN_S = 2.0
"""A refused login fails within this time. A second request waits longer for the topics of a large cluster."""
_SEEN_POLL_S = 0.05


class Admin(AdminClient):
    """confluent-kafka's admin client. It does not log errors, because callers raise them."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._refusals: list[str] = []
        self._unresolved: set[str] = set()
        self.config = config
        self._servers, self._user = config["bootstrap.servers"], config.get("sasl.username")
        settings: dict[str, Any] = {**config, "log_level": 0, "error_cb": self._note}
        super().__init__(settings)

    def metadata(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> ClusterMetadata:
        """Return the cluster's brokers and topics. Raises LoginRefusedError or BrokerUnreachableError."""
        for each_s in (min(_LOGIN_S, timeout_s), timeout_s):
            try:
                return self.list_topics(timeout=each_s)
            except KafkaException as error:
                self.poll(0)
                if self._refusals:
                    raise login_refused(self._servers, self._refusals[-1], self._user) from error
                failure = error
        where = f"{self._servers} within {timeout_s:g} s"
        names = ", ".join(sorted(self._unresolved))
        if names or "," not in self._servers:
            reason = f"host names that do not resolve: {names}" if names else reason_of(failure)
            raise unreachable(where, reason) from failure
        raise no_answer(self.config, f"no list of topics within {timeout_s:g} s", failure) from failure

    def _note(self, error: KafkaError) -> None:
        """Remember refused logins and unknown names. Later, librdkafka reports only that no broker answers."""
        if error.name() == "_RESOLVE":
            # As in "kafka:9092/bootstrap: Failed to resolve 'kafka:9092': Name or service not known".
            self._unresolved.add(str(error.str()).split("'")[1].rpartition(":")[0])
        if error.name() == "_AUTHENTICATION":
            # Leave out the duration, which differs each time, so that the same warning is not shown again.
            self._refusals.append(str(error.str()).partition(": ")[2].partition(" (after")[0])


def admin_client(config: Mapping[str, str]) -> Admin:
    """Return an admin client."""
    return Admin(config)


def running_brokers(config: Mapping[str, str]) -> list[int]:
    """Return the ids of the brokers that are up."""
    return sorted(admin_client(config).metadata().brokers)


def require_topic(config: Mapping[str, str], topic: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> int:
    """Return the number of a topic's partitions. Raises TopicMissingError."""
    found = existing_topics(admin_client(config), timeout_s)
    if topic not in found:
        msg = (
            f"topic {topic!r} does not exist on {config['bootstrap.servers']}, or this user lacks DESCRIBE on it: "
            "run `pid-quota topics create` if it is one of ours, or create it by hand"
        )
        raise TopicMissingError(msg)
    return found[topic]


def existing_topics(admin: Admin, timeout_s: float = DEFAULT_TIMEOUT_S) -> dict[str, int]:
    """Return the number of partitions of each topic."""
    found = admin.metadata(timeout_s).topics
    return {name: len(about.partitions) for name, about in found.items() if about.error is None}


def create_topics(admin: Admin, wanted: Sequence[NewTopic], timeout_s: float = DEFAULT_TIMEOUT_S) -> dict[str, bool]:
    """Create topics, and wait until a broker lists them. Return for each name whether this call created the topic."""
    created = {}
    answers = admin.create_topics(list(wanted), operation_timeout=timeout_s, request_timeout=timeout_s)
    for name, answer in answers.items():
        error = answer.exception()
        created[name] = not (isinstance(error, KafkaException) and name_of(error) == "TOPIC_ALREADY_EXISTS")
        if created[name]:
            result_of(answer, admin.config, f"can't create topic {name!r}", _remedy)
    if not seen_by_brokers(lambda: created.keys() <= existing_topics(admin, timeout_s).keys(), timeout_s):
        names = ", ".join(sorted(created))
        msg = f"topics {names} exist, but are not visible after {timeout_s:g} s: try again, or grant DESCRIBE on them"
        raise TopicError(msg)
    return created


def seen_by_brokers(is_seen: Callable[[], bool], timeout_s: float) -> bool:
    """Wait until a broker shows a change. Return whether it does. Brokers learn of it shortly after the controller."""
    give_up_at = time.monotonic() + timeout_s
    while not is_seen():
        if time.monotonic() > give_up_at:
            return False
        time.sleep(_SEEN_POLL_S)
    return True


def _remedy(error: KafkaException) -> str:
    if name_of(error) == "INVALID_REPLICATION_FACTOR":
        return "start the other brokers, or create the topic with `pid-quota topics create --replication-factor N`"
    return "create it by hand or grant CREATE"

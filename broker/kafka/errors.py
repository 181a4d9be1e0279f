"""Translates the errors of both client libraries into ours."""

import re

from confluent_kafka import KafkaException
from kafka.errors import BrokerResponseError, ClusterAuthorizationFailedError

from broker.errors import (
    BrokerError,
    BrokerUnreachableError,
    LoginRefusedError,
    RequestNotAllowedError,
    RequestRefusedError,
)
from quota.typed import quoted

NO_COORDINATOR_YET = frozenset({"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"})
"""Errors (see `name_of`) of requests about groups while the cluster creates or loads `__consumer_offsets`."""

_JAVA_REQUEST = re.compile(r"(?:Request )?Request\(processor=.*\)", re.DOTALL)


def from_kafka_python(error: Exception, servers: str) -> BrokerError:
    """Translate an error that kafka-python raises."""
    if isinstance(error, ClusterAuthorizationFailedError):
        # Leave out Kafka's own text, because it differs each time.
        needed = "this user needs DESCRIBE and DESCRIBE_CONFIGS on the cluster"
        return RequestNotAllowedError(f"not authorised to read or change the cluster: {needed}")
    reason = without_java(f"{type(error).__name__}: {error}")
    if isinstance(error, BrokerResponseError) and not error.retriable:
        return RequestRefusedError(f"Kafka refused the request ({reason}): check this user's ACLs")
    return unreachable(servers, reason)


def unreachable(servers: str, reason: str) -> BrokerUnreachableError:
    """Return the error to raise if no broker answers."""
    return BrokerUnreachableError(
        f"no Kafka broker answers at {servers} ({reason}): check that it runs, the address and the security settings "
        "of the listener"
    )


def login_refused(servers: str, reason: str, user: str | None = None) -> LoginRefusedError:
    """Return the error to raise if the brokers refuse the login."""
    who = f"the login of user {quoted(user)}" if user else "the login"
    return LoginRefusedError(
        f"the brokers at {servers} refuse {who} ({reason}): check user name, password and mechanism in --command-config"
    )


def reason_of(error: KafkaException) -> str:
    """Return librdkafka's or the broker's description of an error."""
    return without_java(str(error.args[0].str()))


def without_java(text: str) -> str:
    """Return a broker's text without Java's description of a request, which is long and differs each time.

    `KafkaApis` writes it into the texts of refusals.

    Examples:
        >>> without_java("Request Request(processor=1, session=Session(User:bob,/10.0.0.1), buffer=null) is refused.")
        'this request is refused.'
    """
    return _JAVA_REQUEST.sub("this request", text)


def name_of(error: KafkaException) -> str:
    """Return librdkafka's name of an error, such as `TOPIC_ALREADY_EXISTS`."""
    return str(error.args[0].name())

"""Translates the errors of both client libraries into ours."""

from dataclasses import dataclass

from confluent_kafka import KafkaException
from kafka.errors import BrokerResponseError, ClusterAuthorizationFailedError, for_code

from broker.errors import (
    BrokerError,
    BrokerUnreachableError,
    LoginRefusedError,
    RequestNotAllowedError,
    RequestRefusedError,
)

NO_COORDINATOR_YET = frozenset({"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"})
"""Errors (see `name_of`) of requests about groups while the cluster creates or loads `__consumer_offsets`."""


@dataclass(frozen=True)
class Purpose:
    """What requests are about (such as `a client quota`), the rights that they need, and the advice after a refusal."""

    one: str = "the cluster"
    rights: str = "DESCRIBE and DESCRIBE_CONFIGS"
    refused: str = "check this user's ACLs"

    def from_error(self, error: Exception, servers: str) -> BrokerError:
        """Translate an error that kafka-python raises."""
        if isinstance(error, ClusterAuthorizationFailedError):
            return self._not_allowed()
        if isinstance(error, BrokerResponseError) and not error.retriable:
            return self._refused(f"{type(error).__name__}: {error}")
        return unreachable(servers, f"{type(error).__name__}: {error}")

    def from_code(self, code: int, message: str | None) -> BrokerError | None:
        """Translate the error code of a response; None if the code means success."""
        if not code:
            return None
        error = for_code(code)
        reason = f"{error.__name__}: {message}" if message else error.__name__
        if error is ClusterAuthorizationFailedError:
            return self._not_allowed()
        if error.retriable:
            return BrokerUnreachableError(f"Kafka can't read or change {self.one} now ({reason}): retrying")
        return self._refused(reason)

    def _not_allowed(self) -> RequestNotAllowedError:
        # Leave out Kafka's own text, because it differs each time.
        needed = f"this user needs {self.rights} on the cluster"
        return RequestNotAllowedError(f"not authorised to read or change {self.one}: {needed}")

    def _refused(self, reason: str) -> RequestRefusedError:
        return RequestRefusedError(f"Kafka refused {self.one} ({reason}): {self.refused}")


def unreachable(servers: str, reason: str) -> BrokerUnreachableError:
    """Return the error to raise if no broker answers."""
    return BrokerUnreachableError(
        f"no Kafka broker answers at {servers} ({reason}): check that it runs, the address and the security settings "
        "of the listener"
    )


def login_refused(servers: str, reason: str, user: str | None = None) -> LoginRefusedError:
    """Return the error to raise if the brokers refuse the login."""
    who = f"the login of user {user!r}" if user else "the login"
    return LoginRefusedError(
        f"the brokers at {servers} refuse {who} ({reason}): check user name, password and mechanism in --kafka-config"
    )


def reason_of(error: KafkaException) -> str:
    """Return librdkafka's description of an error."""
    return str(error.args[0].str())


def name_of(error: KafkaException) -> str:
    """Return librdkafka's name of an error, such as `TOPIC_ALREADY_EXISTS`."""
    return str(error.args[0].name())

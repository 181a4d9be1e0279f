"""Errors of the Kafka side.

Each message says what happened, and ends with the remedy.
"""


class BrokerError(Exception):
    """Root of all errors of this package."""


class LocalBrokerError(BrokerError):
    """Raised when the embedded broker can't carry out a request."""


class BrokerStartError(LocalBrokerError):
    """Raised when the embedded broker does not start."""


class PortTakenError(BrokerStartError):
    """Raised when another process listens on a port of the embedded broker."""


class BrokerUnreachableError(BrokerError):
    """Raised when no broker answers in time, or Kafka can't answer now; retriable."""


class LoginRefusedError(BrokerError):
    """Raised when brokers refuse the user name or the password; not retriable."""


class ClusterRequestError(BrokerError):
    """Raised when brokers do not carry out a request."""


class RequestRefusedError(ClusterRequestError):
    """Raised when Kafka rejects a request; not retriable."""


class RequestNotAllowedError(ClusterRequestError):
    """Raised when this user lacks a right, which an administrator may grant."""


class KafkaConfigError(BrokerError):
    """Raised when Kafka client settings can't be read or are not supported."""


class TopicError(BrokerError):
    """Raised when a topic can't be created, read or altered."""


class TopicMissingError(TopicError):
    """Raised when a required topic does not exist."""


class HoldNotWrittenError(BrokerError):
    """Raised when a hold or a release was not written, or brokers did not obey it in time."""


class NotHeldError(BrokerError):
    """Raised when somebody is to be released whom nobody holds."""


class RemovalError(BrokerError):
    """Raised when topics can't be deleted because somebody still uses them."""

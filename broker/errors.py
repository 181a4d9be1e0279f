"""Everything that can go wrong on the Kafka side, as one tree.

Each message says what happened, names both values where two disagree, and ends with what to do about it.
"""


class BrokerError(Exception):
    """Root of all errors of this package."""


# What the machine lacks


class JavaError(BrokerError):
    """Root of the errors about the Java installation."""


class JavaMissingError(JavaError):
    """Raised when no usable java was found."""


class JavaTooOldError(JavaError):
    """Raised when the java that was found is older than what is needed."""


class JarsError(BrokerError):
    """Raised when the JVM dependencies cannot be fetched or are not complete."""


class PysparkMissingError(JarsError):
    """Raised when pyspark, which brings the fetcher of the jars, is not installed."""


# The embedded broker


class LocalBrokerError(BrokerError):
    """Raised when the embedded broker is asked for something it cannot do."""


class BrokerStartError(LocalBrokerError):
    """Raised when the embedded broker does not come up."""


class PortTakenError(BrokerStartError):
    """Raised when another process listens on a port of the embedded broker."""


# A broker we talk to


class BrokerUnreachableError(BrokerError):
    """Raised when no broker answers in time."""


class ClusterRequestError(BrokerError):
    """Raised when a broker answers, but refuses what is asked of it."""


class KafkaConfigError(BrokerError):
    """Raised when the client settings of a Kafka cluster cannot be read or are not supported."""


class MetadataLogError(BrokerError):
    """Raised when the metadata log of a controller can't be read."""


class OwnersFileError(BrokerError):
    """Raised when a file that tells whose producer ids are can't be used."""


class TopicError(BrokerError):
    """Raised when a topic cannot be created or does not look as it has to."""


class TopicMissingError(TopicError):
    """Raised when a topic that must be there is not."""


# The tap


class LogLineError(BrokerError):
    """Raised when a line of the tapped log is not what the log4j2 settings of this project write."""


class TapError(BrokerError):
    """Raised when the tap cannot go on."""


class TapDeliveryError(TapError):
    """Raised when Kafka did not take an event of the tap."""


# Enforcement


class ClientQuotaError(BrokerError):
    """Raised when a client quota of Kafka cannot be read or changed."""


class ClientQuotaRefusedError(ClientQuotaError):
    """Raised when Kafka understood, and will not do it: not a valid quota."""


class ClientQuotaUnavailableError(ClientQuotaError):
    """Raised when Kafka may do it later: no answer in time, the controller moves, or we lack the right until then."""


class LeaseStoreError(BrokerError):
    """Raised when leases can't be kept on the brokers, or read from there."""


class EnforcerLockError(BrokerError):
    """Raised when the lock that keeps enforcers one at a time cannot be used."""


class EnforceError(BrokerError):
    """Raised when `pid-quota enforce` can't do what it is asked."""


class WebhookError(BrokerError):
    """Raised when notices can't be sent as they are asked for."""

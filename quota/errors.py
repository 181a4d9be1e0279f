"""The error tree of the quota rules."""


class QuotaError(Exception):
    """Root of every error raised by the quota rules."""


class InvalidConfigError(QuotaError):
    """Raised when a setting of the quota rules is out of its range."""


class InvalidQuotaError(QuotaError):
    """Raised when a `producer_ids_rate` is not a positive, finite number below the limit."""


class InvalidPrincipalError(QuotaError):
    """Raised when a principal is not of Kafka's form `Type:name`."""

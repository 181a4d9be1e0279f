"""The error tree of the quota rules."""


class QuotaError(Exception):
    """Root of every error raised by the quota rules."""


class InvalidConfigError(QuotaError):
    """Raised when a setting of the quota rules is out of its range."""


class InvalidQuotaError(QuotaError):
    """Raised when a quota has no rate, or a number that is not positive, finite and below the limit."""


class InvalidPrincipalError(QuotaError):
    """Raised when a principal is not of Kafka's form `Type:name`."""

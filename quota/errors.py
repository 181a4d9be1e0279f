"""Errors of the quota rules."""


class QuotaError(Exception):
    """Base of all errors of the quota rules."""


class InvalidConfigError(QuotaError):
    """Raised when a setting of the quota rules is out of range."""


class InvalidQuotaError(QuotaError):
    """Raised when a quota has no rate, or a number is not above 0 and below the limit."""


class InvalidPrincipalError(QuotaError):
    """Raised when a principal does not have Kafka's form `Type:name`."""

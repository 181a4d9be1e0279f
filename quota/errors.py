"""Errors of the quota rules."""


class QuotaError(Exception):
    """Base of all errors of the quota rules."""


class InvalidConfigError(QuotaError):
    """Raised when a setting of the quota rules is out of range."""


class InvalidQuotaError(QuotaError):
    """Raised when a quota has no rate, or one of its numbers is out of range."""


class InvalidPrincipalError(QuotaError):
    """Raised when a principal does not have Kafka's form `Type:name`."""

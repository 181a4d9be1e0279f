"""Errors of this package."""


class StateError(Exception):
    """Base of all errors of this package."""


class LedgerCodecError(StateError):
    """Raised when this version can't read bytes as a ledger."""

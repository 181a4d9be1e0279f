"""Errors of this package."""


class StateError(Exception):
    """Base of all errors of this package."""


class LedgerCodecError(StateError):
    """Raised when bytes are not a ledger that this release can read."""

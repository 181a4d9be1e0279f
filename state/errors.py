"""The error tree of the remembered state."""


class StateError(Exception):
    """Root of every error raised by the state package."""


class LedgerCodecError(StateError):
    """Raised when bytes are not a ledger that this version can read."""

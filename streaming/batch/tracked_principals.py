"""The tracked principals: those with a ledger of their own in the state.

The operator reports new and evicted ledgers. The driver applies these changes after the batch.
"""

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

TRACKED = "tracked"
FORGOTTEN = "forgotten"
OVERFLOWED = "overflowed"
NOTES = (TRACKED, FORGOTTEN, OVERFLOWED)
"""Kinds of the operator's rows that change `TrackedPrincipals`. These rows go to no table."""

_CODE_BYTES = 8

_log = logging.getLogger(__name__)


def code_of(principal: str) -> int:
    """Return a 64-bit hash of a principal. The probability of a collision among 50,000 principals is 7e-11."""
    return int.from_bytes(hashlib.blake2b(principal.encode(), digest_size=_CODE_BYTES).digest(), "little", signed=True)


class TrackedPrincipals(msgspec.Struct, frozen=True, array_like=True):
    """The principals with a ledger of their own in the state.

    Attributes:
        codes: Hashes of the principals (`code_of`), ascending, as int64 in native byte order.
        overflowed_ms: Newest event time of an overflow entry (see `streaming.decode.overflow`), or 0.
    """

    codes: bytes = b""
    overflowed_ms: int = 0

    def __len__(self) -> int:
        return len(self.codes) // _CODE_BYTES

    def holds(self, principals: Iterable[str]) -> np.ndarray:
        """Return a mask of the principals with a ledger of their own."""
        return np.isin(np.fromiter(map(code_of, principals), np.int64), self._array())

    def changed(self, tracked: Iterable[int], forgotten: Iterable[int], overflowed_ms: int) -> "TrackedPrincipals":
        """Return the principals after a batch that adds `tracked` and removes `forgotten`, both as hashes."""
        codes = np.union1d(self._array(), np.fromiter(tracked, np.int64))
        codes = np.setdiff1d(codes, np.fromiter(forgotten, np.int64), assume_unique=True)
        return TrackedPrincipals(codes.tobytes(), max(overflowed_ms, self.overflowed_ms))

    def _array(self) -> np.ndarray:
        return np.frombuffer(self.codes, np.int64)


def apply_notes(before: TrackedPrincipals, batch_id: int, notes: Mapping[str, Sequence[int]]) -> TrackedPrincipals:
    """Return the principals after a batch. `notes` holds the bodies of the rows whose kind is in `NOTES`, by kind."""
    tracked, forgotten, overflowed = (notes.get(kind, ()) for kind in NOTES)
    if overflowed:
        _log.warning("batch %d: more principals than --max-principals, see overflow-NN in the metrics", batch_id)
    return before.changed(tracked, forgotten, max(overflowed, default=0))

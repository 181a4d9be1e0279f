"""Coupons: a PID's register and value in a sketch of distinct PIDs (`state.sketch`).

The sketch (Apache DataSketches, HLL) hashes a PID with MurmurHash3. The low bits of the hash's first half select a
register. The PID's value is the number of leading zeros in the second half, plus 1. A register keeps the greatest value
of its PIDs, so most PIDs of a flood change nothing, and need not be added.
"""

from collections.abc import Sequence

import numpy as np

LG_REGISTERS = 10
"""Binary logarithm of the number of registers. The sketch takes at most 616 bytes; its standard error is about 3 %."""
NO_COUPON = 0
"""Marks a PID without a coupon. Such a PID must be added to the sketch."""

_REGISTERS = 1 << LG_REGISTERS
_SEED = np.uint64(9001)
_FACTORS = [np.uint64(each) for each in (0x87C37B91114253D5, 0x4CF5AD432745937F)]
_MIXERS = [np.uint64(each) for each in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)]
_ITEM_BYTES = np.uint64(8)
_HALF = np.uint64(32)


def coupons_of(pid_hashes: Sequence[int]) -> list[int]:
    """Return the coupon of each PID's hash: `value * 1024 + register`, or `NO_COUPON`.

    Examples:
        >>> [(each >> LG_REGISTERS, each % 1024) for each in coupons_of([12345])]
        [(2, 502)]
    """
    items = np.array(pid_hashes, np.uint64)
    # The sketch reads an item beyond int64 as a float.
    mixed = np.where(items >> np.uint64(63), items.astype(np.float64).view(np.uint64), items) * _FACTORS[0]
    mixed = (mixed << np.uint64(31) | mixed >> np.uint64(33)) * _FACTORS[1]
    # MurmurHash3's last step for an item of eight bytes.
    low, high = _SEED ^ mixed ^ _ITEM_BYTES, _SEED ^ _ITEM_BYTES
    low = low + high
    low, high = _finished(low), _finished(low + high)
    low = low + high
    # A float64 represents 32 bits exactly.
    top = ((low + high) >> _HALF).astype(np.float64)
    values = 33 - np.frexp(top)[1].astype(np.int64)
    coupons: list[int] = np.where(
        top > 0, values * _REGISTERS + (low % _REGISTERS).astype(np.int64), NO_COUPON
    ).tolist()
    return coupons


def covered_by(coupon: int) -> range:
    """Return the coupons with the same register and the same or a lower value."""
    return range(_REGISTERS + coupon % _REGISTERS, coupon + 1, _REGISTERS)


def _finished(half: np.ndarray) -> np.ndarray:
    for mixer in _MIXERS:
        half = (half ^ half >> np.uint64(33)) * mixer
    finished: np.ndarray = half ^ half >> np.uint64(33)
    return finished

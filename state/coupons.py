"""Coupons: the part of a PID that a sketch of distinct PIDs keeps, so that a flood skips most updates of the sketch.

A sketch (Apache DataSketches, HLL) hashes an item by MurmurHash3. The hash's low bits select a register. The leading
zeros of its other half are the item's value, and the register keeps the greatest value. Once the sketch has all
registers, an item whose register already has its value, or a greater one, changes nothing.
"""

from collections.abc import Sequence

import numpy as np

LG_REGISTERS = 10
"""1,024 registers of 4 bits: 616 bytes however many PIDs a client makes, about 3 % standard error."""
NO_COUPON = 0
"""The coupon of a PID that has to be added to the sketch."""

_REGISTERS = 1 << LG_REGISTERS
_SEED = np.uint64(9001)
_FACTORS = [np.uint64(each) for each in (0x87C37B91114253D5, 0x4CF5AD432745937F)]
_MIXERS = [np.uint64(each) for each in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)]
_ITEM_BYTES = np.uint64(8)
_HALF = np.uint64(32)


def coupons_of(pid_hashes: Sequence[int]) -> list[int]:
    """Return the coupon of each PID (hash): its value, from 1 on, and its register, in one number; or `NO_COUPON`.

    Examples:
        >>> [(each >> LG_REGISTERS, each % 1024) for each in coupons_of([12345])]
        [(2, 502)]
    """
    items = np.array(pid_hashes, np.uint64)
    # The sketch reads an item beyond int64 as a float.
    mixed = np.where(items >> np.uint64(63), items.astype(np.float64).view(np.uint64), items) * _FACTORS[0]
    mixed = (mixed << np.uint64(31) | mixed >> np.uint64(33)) * _FACTORS[1]
    # MurmurHash3's last step for an item of eight bytes, on both halves of the hash.
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
    """Return the coupons of the same register whose values are at most this coupon's."""
    return range(_REGISTERS + coupon % _REGISTERS, coupon + 1, _REGISTERS)


def _finished(half: np.ndarray) -> np.ndarray:
    for mixer in _MIXERS:
        half = (half ^ half >> np.uint64(33)) * mixer
    finished: np.ndarray = half ^ half >> np.uint64(33)
    return finished

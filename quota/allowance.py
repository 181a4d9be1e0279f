"""The numbers of a quota: a rate and optionally a burst."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quota.errors import InvalidQuotaError

RATE, BURST = "producer_ids_rate", "producer_ids_burst"

MAX_PRODUCER_IDS_RATE = 1e12
"""Exclusive upper bound of a quota's numbers."""

_PLAIN = re.compile(r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


def plain_number(text: str) -> float:
    """Return the number that people read in a text. YAML 1.1 reads 010 as 8 and 1:30 as 90; Python reads 1_0 as 10.

    Raises:
        ValueError: If the text is not a decimal number, or begins with a needless zero.

    Examples:
        >>> plain_number("50"), plain_number("0.5"), plain_number("1e3")
        (50.0, 0.5, 1000.0)
    """
    if _PLAIN.fullmatch(text) is None:
        msg = f"{text!r} is not a number"
        raise ValueError(msg)
    return float(text)


@dataclass(frozen=True)
class Allowance:
    """The numbers of a quota.

    Attributes:
        producer_ids_rate: New PIDs per window.
        producer_ids_burst: New PIDs that a full bucket allows at once. None means the rate times
            `QuotaConfig.burst_windows`.

    Raises:
        InvalidQuotaError: If a number is 0 or less, or `MAX_PRODUCER_IDS_RATE` or more.
    """

    producer_ids_rate: float
    producer_ids_burst: float | None = None

    def __post_init__(self) -> None:
        if not _is_in_range(self.producer_ids_rate):
            msg = (
                f"producer_ids_rate={self.producer_ids_rate} is not a quota: "
                f"it must be a number above 0 and below {MAX_PRODUCER_IDS_RATE:g}; to lift a quota, delete it"
            )
            raise InvalidQuotaError(msg)
        if not (self.producer_ids_burst is None or _is_in_range(self.producer_ids_burst)):
            msg = (
                f"producer_ids_burst={self.producer_ids_burst} is no burst: it must be a number above 0 and below "
                f"{MAX_PRODUCER_IDS_RATE:g}; to go back to the default burst, delete producer_ids_burst"
            )
            raise InvalidQuotaError(msg)

    @classmethod
    def parse(cls, row: Mapping[str, Any]) -> "Allowance":
        """Return the allowance of a row of the quota table. The burst may be missing.

        Raises:
            InvalidQuotaError: If the rate is missing, or a value is out of range or not a number.
        """
        rate, burst = (_number(name, row.get(name)) for name in (RATE, BURST))
        if rate is None:
            msg = f"there is no {RATE}" if burst is None else f"{BURST}={burst} has no {RATE}: set both"
            raise InvalidQuotaError(msg)
        return cls(rate, burst)

    @property
    def burst(self) -> float:
        """Tokens of a full bucket. If the quota has no burst, this assumes a burst of one window."""
        return self.producer_ids_rate if self.producer_ids_burst is None else self.producer_ids_burst

    def __str__(self) -> str:
        """Return text such as `10` or `10, burst 600`."""
        burst = "" if self.producer_ids_burst is None else f", burst {self.producer_ids_burst:.15g}"
        return f"{self.producer_ids_rate:.15g}{burst}"


def _is_in_range(number: float) -> bool:
    return math.isfinite(number) and 0 < number < MAX_PRODUCER_IDS_RATE


def _number(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__float__"):
        msg = f"{name} {value!r} is not a number"
        raise InvalidQuotaError(msg)
    try:
        return float(value)
    except OverflowError:
        return float("inf")

"""What a quota allows: a rate, and a burst of its own if it has one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quota.errors import InvalidQuotaError
from quota.limits import validate_burst, validate_rate

RATE, BURST = "producer_ids_rate", "producer_ids_burst"


@dataclass(frozen=True)
class Allowance:
    """The numbers of a quota.

    Attributes:
        producer_ids_rate: New PIDs per window.
        producer_ids_burst: New PIDs at once, with a full bucket; None for the stream's default, `--burst-windows` of
            the rate.

    Raises:
        InvalidQuotaError: If a number is not above 0 and below `MAX_PRODUCER_IDS_RATE`.
    """

    producer_ids_rate: float
    producer_ids_burst: float | None = None

    def __post_init__(self) -> None:
        validate_rate(self.producer_ids_rate)
        validate_burst(self.producer_ids_burst, self.producer_ids_rate)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Allowance":
        """Return the allowance of a row of quotas; the burst may be missing.

        Raises:
            InvalidQuotaError: If a number is out of range or no number, or there is no rate.
        """
        for name in (RATE, BURST):
            value = row.get(name)
            if isinstance(value, bool) or not (value is None or hasattr(value, "__float__")):
                msg = f"{name} {value!r} is not a number"
                raise InvalidQuotaError(msg)
        rate, burst = (_float(row.get(name)) for name in (RATE, BURST))
        if rate is None:
            validate_burst(burst, None)
            msg = f"there is no {RATE}"
            raise InvalidQuotaError(msg)
        return cls(rate, burst)

    @property
    def burst(self) -> float:
        """The tokens of a full bucket, if `--burst-windows` is 1."""
        return self.producer_ids_rate if self.producer_ids_burst is None else self.producer_ids_burst

    def __str__(self) -> str:
        """Return the numbers in words, such as `10` or `10, burst 600`."""
        burst = "" if self.producer_ids_burst is None else f", burst {self.producer_ids_burst:.15g}"
        return f"{self.producer_ids_rate:.15g}{burst}"


def _float(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except OverflowError:
        return float("inf")

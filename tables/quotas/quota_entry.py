"""A quota as a row of `producer_id_quotas`."""

from dataclasses import dataclass
from datetime import datetime

from quota.allowance import Allowance
from quota.typed import quoted


@dataclass(frozen=True)
class QuotaEntry:
    """A quota.

    Attributes:
        entity_name: Bare user name; None for the default quota.
        producer_ids_rate: New producer ids per window.
        producer_ids_burst: New producer ids at once; None for the stream's default.
    """

    entity_name: str | None
    producer_ids_rate: float
    updated_at: datetime
    updated_by: str | None
    producer_ids_burst: float | None = None

    @classmethod
    def from_allowance(
        cls, entity_name: str | None, allowance: Allowance, updated_at: datetime, updated_by: str | None
    ) -> "QuotaEntry":
        """Return an entry with the rate and burst of `allowance`."""
        return cls(entity_name, allowance.producer_ids_rate, updated_at, updated_by, allowance.producer_ids_burst)

    @property
    def allowance(self) -> Allowance:
        """The rate and burst.

        Raises:
            InvalidQuotaError: If a number is out of range.
        """
        return Allowance(self.producer_ids_rate, self.producer_ids_burst)


def entity_words(entity_name: str | None) -> str:
    """Return an entity in words.

    Examples:
        >>> entity_words("alice"), entity_words(None)
        ("user 'alice'", 'the default')
    """
    return "the default" if entity_name is None else f"user {quoted(entity_name)}"

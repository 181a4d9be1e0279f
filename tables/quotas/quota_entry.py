"""A quota as a row of `producer_id_quotas`."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class QuotaEntry:
    """A quota.

    Attributes:
        entity_name: Bare user name, None for the default.
        producer_ids_rate: New producer ids per window.
        updated_at: When it was set.
        updated_by: Who set it.
    """

    entity_name: str | None
    producer_ids_rate: float
    updated_at: datetime
    updated_by: str | None

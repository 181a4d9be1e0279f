"""Quotas as rows of `producer_id_quotas`, which other programs may write: validation, and the rows in force."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from quota.allowance import BURST, RATE, Allowance
from quota.errors import InvalidQuotaError
from quota.typed import quoted

COLUMNS = ("entity_type", "entity_name", RATE, BURST, "updated_at")
"""Columns needed to pick the rows in force."""
_MAX_FAULTS = 10


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


def entries_in_force(rows: Iterable[Mapping[str, Any]]) -> tuple[list[QuotaEntry], list[str]]:
    """Return the newest valid quota of each user and the newest default quota, and a line for each fault.

    If there are more than `_MAX_FAULTS` faults, a last line counts the others.
    """
    in_force: dict[str | None, QuotaEntry] = {}
    counts: dict[str | None, int] = {}
    faults = []
    for row in rows:
        try:
            entry = _validated(row)
        except InvalidQuotaError as error:
            faults.append(f"a row of quotas is invalid: {error}")
            continue
        name = entry.entity_name
        counts[name] = counts.get(name, 0) + 1
        if name not in in_force or in_force[name].updated_at <= entry.updated_at:
            in_force[name] = entry
    for name, count in counts.items():
        if count > 1:
            newest = in_force[name].allowance
            faults.append(f"{entity_words(name)} has {count} quota rows: the newest is in force, {newest} per window")
    more = len(faults) - _MAX_FAULTS
    rest = [f"{more} more rows of quotas like these"] if more > 0 else []
    return list(in_force.values()), [*sorted(faults)[:_MAX_FAULTS], *rest]


def _validated(row: Mapping[str, Any]) -> QuotaEntry:
    name, updated_at = row["entity_name"], row["updated_at"]
    if row["entity_type"] != "user":
        msg = f"its entity_type is {row['entity_type']!r}, and only 'user' is known"
        raise InvalidQuotaError(msg)
    if not isinstance(updated_at, datetime):
        msg = f"the row of {entity_words(name)} has no updated_at"
        raise InvalidQuotaError(msg)
    try:
        return QuotaEntry.from_allowance(name, Allowance.parse(row), updated_at, row.get("updated_by"))
    except InvalidQuotaError as error:
        msg = f"{entity_words(name)}: {error}"
        raise InvalidQuotaError(msg) from error

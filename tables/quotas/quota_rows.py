"""Validates rows of `producer_id_quotas`, which anybody may write, and picks those in force."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from quota.allowance import BURST, RATE, Allowance
from quota.errors import InvalidQuotaError

COLUMNS = ("entity_type", "entity_name", RATE, BURST, "updated_at")
"""Columns by which rows are validated."""

_MAX_SAID = 10


@dataclass(frozen=True)
class ValidatedQuotas:
    """The outcome of validating rows.

    Attributes:
        holding: The row in force of each entity, by name; None is the default.
        faults: What is wrong with other rows, one sentence each.
    """

    holding: dict[str | None, Mapping[str, Any]]
    faults: tuple[str, ...]

    def said(self) -> list[str]:
        """Return the first faults, and a line that counts the rest."""
        more = len(self.faults) - _MAX_SAID
        return [*self.faults[:_MAX_SAID], *([f"{more} more rows of quotas like these"] if more > 0 else [])]


def judge(rows: Iterable[Mapping[str, Any]]) -> ValidatedQuotas:
    """Pick the rows in force: the newest valid one of each user and of the default."""
    holding: dict[str | None, Mapping[str, Any]] = {}
    counts: dict[str | None, int] = {}
    faults = []
    for row in rows:
        fault = _fault(row)
        if fault:
            faults.append(f"a row of quotas does not hold: {fault}")
            continue
        name = row["entity_name"]
        counts[name] = counts.get(name, 0) + 1
        if name not in holding or holding[name]["updated_at"] <= row["updated_at"]:
            holding[name] = row
    for name, count in counts.items():
        if count > 1:
            newest = Allowance.of(holding[name])
            faults.append(f"{_words(name)} has {count} rows of quotas: the newest holds, {newest} per window")
    return ValidatedQuotas(holding, tuple(sorted(faults)))


def _fault(row: Mapping[str, Any]) -> str:
    name = row["entity_name"]
    if row["entity_type"] != "user":
        return f"its entity_type is {row['entity_type']!r}, and only 'user' is known"
    if not isinstance(row["updated_at"], datetime):
        return f"that of {_words(name)} has no updated_at"
    try:
        Allowance.of(row)
    except InvalidQuotaError as error:
        return f"{_words(name)}: {error}"
    return ""


def _words(name: str | None) -> str:
    return "the default" if name is None else f"user {name!r}"

"""Sets and deletes quotas as `kafka-configs.sh --alter` does: values that you don't name stay unchanged."""

from dataclasses import replace
from datetime import datetime

from jobs.errors import JobError
from quota.allowance import BURST, RATE, Allowance, plain_number
from tables.errors import NoSuchQuotaError
from tables.quotas.quota_entry import QuotaEntry, entity_words
from tables.quotas.quota_table import delete_quota, quotas_in_force, set_quota


def add(tables: str, entity_name: str | None, text: str, now: datetime, who: str) -> Allowance:
    """Set numbers of a quota from `text`, such as `producer_ids_rate=10,producer_ids_burst=600`. Return the quota.

    The tables must exist. If `entity_name` is None, the default quota changes.
    """
    numbers: dict[str, float] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        name = _known(key, numbers)
        try:
            # kafka-configs.sh prints values in brackets, and people copy the brackets.
            numbers[name] = plain_number(value.strip().removeprefix("[").removesuffix("]"))
        except ValueError:
            given = f"{value!r} is not a number" if equals else "there is no value"
            msg = f"--add-config {text!r}: {given}. For example, write {name}=50"
            raise JobError(msg) from None
    before = _in_force(tables, entity_name)
    kept = {} if before is None else {RATE: before.producer_ids_rate, BURST: before.producer_ids_burst}
    allowance = Allowance.parse(kept | numbers)
    set_quota(tables, QuotaEntry.from_allowance(entity_name, allowance, now, who))
    return allowance


def delete(tables: str, entity_name: str | None, text: str, now: datetime, who: str) -> Allowance | None:
    """Delete a quota, or only its burst. Return the remaining quota or None."""
    names: dict[str, float] = {}
    for part in text.split(","):
        names[_known(part, names)] = 0
    if RATE in names:
        delete_quota(tables, entity_name)
        return None
    before = _in_force(tables, entity_name)
    if before is None or before.producer_ids_burst is None:
        msg = f"{entity_words(entity_name)} has no {BURST} to delete. See `pid-quota quotas --describe`"
        raise NoSuchQuotaError(msg)
    allowance = replace(before.allowance, producer_ids_burst=None)
    set_quota(tables, QuotaEntry.from_allowance(entity_name, allowance, now, who))
    return allowance


def _in_force(tables: str, entity_name: str | None) -> QuotaEntry | None:
    return next((entry for entry in quotas_in_force(tables) if entry.entity_name == entity_name), None)


def _known(key: str, seen: dict[str, float]) -> str:
    name = key.strip()
    if name not in (RATE, BURST):
        msg = f"quota {name!r} is unknown. Quotas here have {RATE} and {BURST}"
        raise JobError(msg)
    if name in seen:
        msg = f"{name} appears twice. Give it once"
        raise JobError(msg)
    return name

"""Sets, deletes and reads quotas: one row per entity."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from quota.errors import InvalidQuotaError
from quota.typed import quoted
from tables.errors import NoSuchQuotaError
from tables.quotas.quota_entry import QuotaEntry, entity_words, entries_in_force
from tables.store.open import open_store

TABLE = "producer_id_quotas"
_KEYS = ("entity_type", "entity_name")


def set_quota(tables: str, entry: QuotaEntry) -> None:
    """Set a user's quota or the default quota. Raises the same errors as `set_quotas`."""
    set_quotas(tables, [entry])


def set_quotas(tables: str, entries: Sequence[QuotaEntry], remove: Sequence[str | None] = ()) -> None:
    """Set `entries`, and delete the quotas of the users in `remove` (None: the default quota), in one commit.

    If `tables` is a folder, create missing tables.

    Raises:
        InvalidQuotaError: If a number is out of range, or a name begins or ends with a blank.
        TableError: If the table can't be written.
    """
    for entry in entries:
        _ = entry.allowance
        name = entry.entity_name or ""
        if name != name.strip(" "):
            msg = f"{entity_words(name)} begins or ends with a blank: write {quoted(name.strip(' '))}"
            raise InvalidQuotaError(msg)
    with open_store(tables) as store:
        store.ensure_tables()
        rows = [{"entity_type": "user", **asdict(entry)} for entry in entries]
        store.merge(TABLE, _KEYS, rows, [_key(name) for name in remove])


def delete_quota(tables: str, entity_name: str | None) -> None:
    """Delete a user's quota or the default quota.

    Raises:
        NoSuchQuotaError: If there is no such quota.
        TableError: If the table can't be written.
    """
    if entity_name not in quota_names(tables):
        msg = f"{entity_words(entity_name)} has no quota to delete. See `pid-quota quotas --describe`"
        raise NoSuchQuotaError(msg)
    with open_store(tables) as store:
        store.merge(TABLE, _KEYS, [], [_key(entity_name)])


def quota_names(tables: str) -> set[str | None]:
    """Return the names of all rows, because invalid rows can be deleted, too. None is the default quota.

    Raises:
        TableError: If the table is missing or can't be read.
    """
    with open_store(tables) as store:
        return {row["entity_name"] for row in store.read(TABLE)}


def quotas_in_force(tables: str) -> list[QuotaEntry]:
    """Return the quotas in force: the default quota, then users by name.

    Raises:
        TableError: If the table is missing or can't be read.
    """
    return validated_quotas(tables)[0]


def validated_quotas(tables: str) -> tuple[list[QuotaEntry], list[str]]:
    """Return the quotas in force and the faults of rows. Raises the same errors as `quotas_in_force`."""
    with open_store(tables) as store:
        entries, faults = entries_in_force(store.read(TABLE))
    return sorted(entries, key=lambda entry: (entry.entity_name is not None, entry.entity_name or "")), faults


def _key(entity_name: str | None) -> dict[str, Any]:
    return {"entity_type": "user", "entity_name": entity_name}

"""The commands that the console and `quotas --suggest` offer to copy, because they change nothing themselves."""

from pathlib import Path

from quota.allowance import BURST, RATE, Allowance
from quota.typed import typed
from tables.store.open import is_folder


def set_quota(tables: str, name: str | None, allowance: Allowance) -> str:
    """Return the command that sets the quota of user `name`, or the default quota if it is None."""
    numbers = {RATE: allowance.producer_ids_rate, BURST: allowance.producer_ids_burst}
    config = ",".join(f"{key}={number:.15g}" for key, number in numbers.items() if number is not None)
    return _alter(tables, name, "--add-config", config)


def delete_quota(tables: str, name: str | None) -> str:
    """Return the command that deletes the quota of user `name`, or the default quota if it is None."""
    return _alter(tables, name, "--delete-config", RATE)


def release(bootstrap_servers: str, principal: str | None) -> str:
    """Return the command that ends the hold of a principal, or of everybody if it is None."""
    servers = ("--bootstrap-server", bootstrap_servers) if bootstrap_servers else ()
    return typed(("pid-quota", "release", *servers, "--all" if principal is None else principal))


def _alter(tables: str, name: str | None, *change: str) -> str:
    # A reader's shell is in another folder than the console.
    where = str(Path(tables).absolute()) if is_folder(tables) else tables
    who = ("--entity-default",) if name is None else ("--entity-name", name)
    return typed(("pid-quota", "quotas", "--tables", where, "--alter", "--entity-type", "users", *who, *change))

"""Prints the command that sets the quota suggested for a principal; it sets nothing."""

import shlex

from jobs.errors import SuggestError
from jobs.options import full_name
from quota.allowance import BURST, RATE
from quota.principals import entity_name
from tables.query.suggestions import suggestions


def command_for(tables: str, principal: str) -> str:
    """Return the command to type for the quota that `suggest-quotas` suggests by default."""
    name = full_name(principal)
    found = suggestions(tables, percentile=99.0, headroom=1.5, at_least=10.0)
    allowance = next((each.allowance for each in found if each.principal == name), None)
    if allowance is None:
        msg = f"{name} has no window with new producer ids yet. Check the name with `pid-quota top --tables {tables}`"
        raise SuggestError(msg)
    numbers = f"{RATE}={allowance.producer_ids_rate:.15g},{BURST}={allowance.burst:.15g}"
    entity = ("--entity-type", "users", "--entity-name", entity_name(name))
    return shlex.join(("pid-quota", "quotas", "--tables", tables, "--alter", "--add-config", numbers, *entity))

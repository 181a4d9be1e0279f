"""The ACL that stands for a hold: the enforcer writes it, `pidquota.HoldAuthorizer` on the brokers reads it.

It is DENY Write on a topic that can't exist, whose name has the hold's end, and the id of its lease, if any.
"""

import re
from dataclasses import dataclass

HOLD_AUTHORIZER = "pidquota.HoldAuthorizer"
"""Value of `authorizer.class.name` on brokers that know holds."""

HOLD_PREFIX = "pid-quota-hold:"
"""No topic has a colon in its name."""

MAX_HOLD_MS = 3_600_000
"""The class ignores an end that is further ahead, by the broker's clock."""

_NAME = re.compile(HOLD_PREFIX + "([1-9][0-9]{0,17})(?::([0-9a-z]{1,32}))?")


@dataclass(frozen=True)
class HoldBinding:
    """A hold on a user; one that is set by hand has no `lease_id`. `until_ms` is its end, in ms since the epoch."""

    user: str
    until_ms: int
    lease_id: str | None = None

    @property
    def name(self) -> str:
        """Name of the topic that the ACL is about.

        Examples:
            >>> HoldBinding("mallory", 1_800_000_000_000).name, HoldBinding("mallory", 18, "ab12").name
            ('pid-quota-hold:1800000000000', 'pid-quota-hold:18:ab12')
        """
        return f"{HOLD_PREFIX}{self.until_ms}" + (f":{self.lease_id}" if self.lease_id else "")


def hold_binding(user: str, name: str) -> HoldBinding | None:
    """Return the hold that a topic name stands for; None if it stands for no hold.

    Examples:
        >>> hold_binding("mallory", "pid-quota-hold:18:ab12")
        HoldBinding(user='mallory', until_ms=18, lease_id='ab12')
        >>> [hold_binding("mallory", name) for name in ("orders", "pid-quota-hold:018", "pid-quota-hold:18:")]
        [None, None, None]
    """
    found = _NAME.fullmatch(name)
    return HoldBinding(user, int(found[1]), found[2]) if found else None

"""Holds. Until a hold ends, its user gets no new producer ids.

The enforcer stores a hold as an ACL, which `pidquota.HoldAuthorizer` on the brokers reads. The ACL denies Write on a
topic that can't exist. The topic's name contains the hold's end, and perhaps the id of a lease.
"""

import re
from dataclasses import dataclass

HOLD_AUTHORIZER = "pidquota.HoldAuthorizer"
"""Value of `authorizer.class.name` on brokers that support holds."""

HOLD_PREFIX = "pid-quota-hold:"
"""Prefix of the topic's name. Kafka allows no colon in the name of a topic, so the topic can't exist."""

MAX_HOLD_MS = 3_600_000
"""The authorizer ignores a hold that ends more than this time ahead of the broker's clock."""

_NAME = re.compile(HOLD_PREFIX + "([1-9][0-9]{0,17})(?::([0-9a-z]{1,32}))?")


@dataclass(frozen=True)
class HoldBinding:
    """A hold on a user until `until_ms`, in ms since the epoch. A hold that was set by hand has no `lease_id`."""

    user: str
    until_ms: int
    lease_id: str | None = None

    @property
    def name(self) -> str:
        """Name of the topic in the ACL.

        Examples:
            >>> HoldBinding("mallory", 1_800_000_000_000).name, HoldBinding("mallory", 18, "ab12").name
            ('pid-quota-hold:1800000000000', 'pid-quota-hold:18:ab12')
        """
        return f"{HOLD_PREFIX}{self.until_ms}" + (f":{self.lease_id}" if self.lease_id else "")


def hold_binding(user: str, name: str) -> HoldBinding | None:
    """Return the hold that the name of an ACL's topic describes, or None.

    Examples:
        >>> hold_binding("mallory", "pid-quota-hold:18:ab12")
        HoldBinding(user='mallory', until_ms=18, lease_id='ab12')
        >>> [hold_binding("mallory", name) for name in ("orders", "pid-quota-hold:018", "pid-quota-hold:18:")]
        [None, None, None]
    """
    found = _NAME.fullmatch(name)
    return HoldBinding(user, int(found[1]), found[2]) if found else None

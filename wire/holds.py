"""The binding that stands for a hold: the enforcer writes it, `pidquota.HoldAuthorizer` on the brokers reads it.

A hold is an ACL: DENY Write for a principal on a topic that can't exist, whose name says when the hold ends.
"""

HOLD_AUTHORIZER = "pidquota.HoldAuthorizer"
"""Value of `authorizer.class.name` on brokers that know holds."""

HOLD_PREFIX = "pid-quota-hold:"
"""No topic has a colon in its name."""

LONGEST_HOLD_MS = 3_600_000
"""The class ignores an end that is further ahead, by the broker's clock."""


def hold_name(until_ms: int) -> str:
    """Return the topic name of a hold that ends at `until_ms`, in milliseconds since the epoch.

    Examples:
        >>> hold_name(1_800_000_000_000)
        'pid-quota-hold:1800000000000'
    """
    return f"{HOLD_PREFIX}{until_ms}"


def hold_end_ms(name: str) -> int | None:
    """Return the end that a topic name stands for; None if it stands for no hold.

    Examples:
        >>> [hold_end_ms(name) for name in ("pid-quota-hold:1800000000000", "orders", "pid-quota-hold:018")]
        [1800000000000, None, None]
    """
    digits = name.removeprefix(HOLD_PREFIX)
    is_end = digits != name and digits.isascii() and digits.isdigit() and len(digits) < 19 and digits[0] != "0"
    return int(digits) if is_end else None

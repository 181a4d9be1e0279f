"""Names of principals, and the principals that are never throttled."""

from quota.errors import InvalidPrincipalError

UNKNOWN_PRINCIPAL = "unknown"
"""The owner of PIDs that nobody could attribute. This owner is reported, but never throttled."""

OVERFLOW_ENTRIES = 64
OVERFLOW_PRINCIPALS = tuple(f"overflow-{number:02d}" for number in range(OVERFLOW_ENTRIES))
"""Names of the ledgers that principals beyond `--max-principals` share. These are reported, but never throttled.

No record's principal has one of these names, because it is `unknown` or contains a colon.
"""

NEVER_ENFORCED = frozenset({UNKNOWN_PRINCIPAL, "User:ANONYMOUS", *OVERFLOW_PRINCIPALS})

MAX_PRINCIPAL_BYTES = 1024
"""Maximum length of a principal in UTF-8."""

_NO_ENTITY = frozenset({UNKNOWN_PRINCIPAL, *OVERFLOW_PRINCIPALS})


def entity_name(principal: str) -> str:
    """Return the bare name that Kafka's quotas use for a principal.

    Raises:
        InvalidPrincipalError: If the principal has no type before a colon, or no name after it.

    Examples:
        >>> entity_name("User:CN=a,O=b")
        'CN=a,O=b'
        >>> entity_name("unknown"), entity_name("overflow-07")
        ('unknown', 'overflow-07')
    """
    if principal in _NO_ENTITY:
        return principal
    kind, colon, name = principal.partition(":")
    if not (kind and colon and name):
        msg = f"principal {principal!r} is not of the form 'Type:name': write 'User:{principal or 'alice'}'"
        raise InvalidPrincipalError(msg)
    return name

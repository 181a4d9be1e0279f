"""KafkaPrincipals: their form, the quota entity they map to, and those that are never enforced."""

from quota.errors import InvalidPrincipalError

UNKNOWN_PRINCIPAL = "unknown"
"""Stands for the owner of PIDs that the tap could not place. Reported, never enforced."""

NEVER_ENFORCED = frozenset({UNKNOWN_PRINCIPAL, "User:ANONYMOUS"})


def entity_name(principal: str) -> str:
    """Return the bare name that Kafka's quotas use for a principal.

    Raises:
        InvalidPrincipalError: If the principal has no `Type:` in front or no name behind it.

    Examples:
        >>> entity_name("User:CN=a,O=b")
        'CN=a,O=b'
        >>> entity_name("unknown")
        'unknown'
    """
    if principal == UNKNOWN_PRINCIPAL:
        return principal
    kind, colon, name = principal.partition(":")
    if not (kind and colon and name):
        msg = f"principal {principal!r} is not of the form 'Type:name': write 'User:{principal or 'alice'}'"
        raise InvalidPrincipalError(msg)
    return name

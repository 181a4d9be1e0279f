"""Words of messages."""


def plural(count: float, one: str, many: str | None = None) -> str:
    """Return a number of things.

    Examples:
        >>> plural(1, "address", "addresses"), plural(2, "address", "addresses"), plural(1234, "row")
        ('1 address', '2 addresses', '1,234 rows')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"

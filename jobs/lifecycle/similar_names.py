"""Suggests principals for a mistyped name."""

from collections.abc import Sequence
from difflib import get_close_matches

_MAX_NAMES = 5


def similar(name: str, known: Sequence[str]) -> list[str]:
    """Return the known names that are most similar to a wrong one.

    Examples:
        >>> similar("alcie", ["User:alice", "User:bob"]), similar("zzz", ["User:bob"])
        (['User:alice'], [])
    """
    plain = {each.rpartition(":")[2].lower(): each for each in reversed(known)}
    wanted = name.rpartition(":")[2].lower()
    close = [plain[each] for each in get_close_matches(wanted, plain, _MAX_NAMES)]
    holding = [each for each in known if wanted and wanted in each.lower()]
    return list(dict.fromkeys([*close, *holding]))[:_MAX_NAMES]

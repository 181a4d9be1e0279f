"""Says which brokers run a plugin of another version than this program."""

from collections import defaultdict
from collections.abc import Mapping


def version_line(plugins: Mapping[int, str], own: str) -> str:
    """Return a line about plugins of another version than this program, or an empty text.

    Examples:
        >>> version_line({1: "2.0", 2: "1.9", 3: "1.9"}, "2.0")
        'brokers 2, 3 run the plugin 1.9, and this is pid-quota 2.0: copy the jar of `pid-quota broker-jar` to them'
        >>> version_line({1: "2.0"}, "2.0")
        ''
    """
    brokers = defaultdict[str, list[str]](list)
    for broker, version in plugins.items():
        brokers[version].append(str(broker))
    others = [
        f"broker{'s' if len(ids) > 1 else ''} {', '.join(ids)} run{'' if len(ids) > 1 else 's'} the plugin {version}"
        for version, ids in sorted(brokers.items())
        if version != own
    ]
    if not others:
        return ""
    return f"{'; '.join(others)}, and this is pid-quota {own}: copy the jar of `pid-quota broker-jar` to them"

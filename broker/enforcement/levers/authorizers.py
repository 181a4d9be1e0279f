"""Checks that every broker has the class: a hold does not apply to brokers without it."""

from collections.abc import Callable, Mapping

from broker.enforcement.model import Clocks
from broker.enforcement.notices import Notice
from broker.enforcement.pace import Pace
from broker.errors import BrokerError
from wire.holds import HOLD_AUTHORIZER

_LOOK_EVERY_MS = 30_000
_LACKS = f"no hold is used before every broker has {HOLD_AUTHORIZER} (docs/authorizer.md)"


class Authorizers:
    """Reads the brokers' authorizers every 30 s, and reports changes."""

    def __init__(self, look: Callable[[], Mapping[int, str]], clocks: Clocks, notify: Callable[[Notice], None]) -> None:
        self._look, self._clocks, self._notify = look, clocks, notify
        self._known: Mapping[int, str] = {}
        self._reason = ""
        self._pace = Pace(clocks.steady_ms, _LOOK_EVERY_MS)

    def unavailable_reason(self) -> str:
        """Return why no hold can be used now, or an empty string."""
        if self._pace.is_due():
            try:
                self._learn(self._look())
            except BrokerError as error:
                # Keep the last answer: the class changes only when a broker restarts.
                if not self._known:
                    self._reason = f"the brokers' authorizers can't be read ({error})"
        return self._reason

    def _learn(self, found: Mapping[int, str]) -> None:
        lacking = [number for number, name in found.items() if name != HOLD_AUTHORIZER]
        for number, name in found.items():
            if self._known.get(number) != name:
                what = _LACKS if number in lacking else "a hold keeps new producer ids back there"
                why = f"broker {number} has {name or 'no authorizer'}: {what}"
                self._notify(Notice(self._clocks.now_ms(), "lever", why))
        self._known = dict(found)
        numbers = ", ".join(map(str, lacking))
        self._reason = f"not every broker has the authorizer (not {numbers})" if lacking else ""

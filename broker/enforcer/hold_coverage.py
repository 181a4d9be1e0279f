"""Which brokers know holds: a hold keeps nobody from asking another broker for a producer id."""

from collections.abc import Callable, Mapping

from broker.enforcer.notices import Notice
from broker.enforcer.pace import Pace
from broker.enforcer.ports import Clocks
from broker.errors import BrokerError
from wire.holds import HOLD_AUTHORIZER

_LOOK_EVERY_MS = 30_000
_LACKS = f"no hold is used before every broker has {HOLD_AUTHORIZER} (docs/authorizer.md)"


class HoldCoverage:
    """Asks the brokers which authorizer they have, now and then, and tells what has changed.

    Args:
        authorizers: Returns the class of each broker's authorizer, by broker id.
        clocks: Time the looks.
        notify: Called with a notice for each broker whose authorizer is new to us.
    """

    def __init__(
        self, authorizers: Callable[[], Mapping[int, str]], clocks: Clocks, notify: Callable[[Notice], None]
    ) -> None:
        self._authorizers, self._clocks, self._notify = authorizers, clocks, notify
        self._known: Mapping[int, str] = {}
        self._trouble = ""
        self._pace = Pace(clocks.steady_ms, _LOOK_EVERY_MS)

    def trouble(self) -> str:
        """Return why no hold can be used now, or an empty string."""
        if self._pace.is_due():
            try:
                self._learn(self._authorizers())
            except BrokerError as error:
                # What was read before stands: a class comes and goes with a broker's restart only.
                if not self._known:
                    self._trouble = f"which brokers know holds can't be read ({error})"
        return self._trouble

    def _learn(self, found: Mapping[int, str]) -> None:
        lacking = [number for number, name in found.items() if name != HOLD_AUTHORIZER]
        for number, name in found.items():
            if self._known.get(number) != name:
                what = _LACKS if number in lacking else "a hold keeps new producer ids back there"
                why = f"broker {number} has {name or 'no authorizer'}: {what}"
                self._notify(Notice(self._clocks.wall_ms(), "lever", why))
        self._known = dict(found)
        numbers = ", ".join(map(str, lacking))
        self._trouble = f"not every broker knows holds (not {numbers})" if lacking else ""

"""Whether new producer ids can be refused: proven, since it changes ACLs that concern the whole cluster."""

from collections.abc import Callable

from broker.cluster.refusal_facts import RefusalFacts
from broker.enforcer.notices import Notice
from broker.enforcer.pace import Pace
from broker.enforcer.ports import Clocks
from broker.errors import BrokerError
from broker.leases.refusal_rules import (
    ALLOW_EVERYONE_SETTING,
    SUPER_USERS_SETTING,
    trouble_of_cluster,
    trouble_of_principal,
)

_LOOK_EVERY_MS = 30_000
_WORKS = (
    "new producer ids can be refused. A refusal does not end by itself: if this process is killed, it stays until an "
    "enforcer starts again or --release-all is given"
)
_UNTRIED = f"; brokers hide the value of {ALLOW_EVERYONE_SETTING}, which is tried with --apply only"
_HIDDEN = f"; brokers hide their {SUPER_USERS_SETTING}: one of them goes on, and gets the client quota in time"


class RefusalCoverage:
    """Looks at the cluster now and then, and tells what has changed.

    Args:
        look: Returns what is known of the cluster.
        clocks: Time the looks.
        notify: Called with a notice when it works, or why it does not any more.
    """

    def __init__(self, look: Callable[[], RefusalFacts], clocks: Clocks, notify: Callable[[Notice], None]) -> None:
        self._look, self._clocks, self._notify = look, clocks, notify
        self._pace = Pace(clocks.steady_ms, _LOOK_EVERY_MS)
        self._facts: RefusalFacts | None = None
        self._trouble = ""
        self._told = ""

    def trouble(self, principal: str = "") -> str:
        """Return why a principal (by default: anybody) can't be refused new producer ids now, or an empty string."""
        if self._pace.is_due():
            self._learn()
        if self._trouble or self._facts is None or not principal:
            return self._trouble
        return trouble_of_principal(self._facts, principal)

    def _learn(self) -> None:
        try:
            self._facts = self._look()
        except BrokerError as error:
            # Unlike a broker's class, an ACL may come and go at any time.
            self._facts, self._trouble = None, f"what the brokers allow can't be read ({error})"
        else:
            self._trouble = trouble_of_cluster(self._facts)
        what = f"no new producer id is refused: {self._trouble}" if self._trouble else _WORKS + self._caveats()
        if what != self._told:
            self._told = what
            self._notify(Notice(self._clocks.wall_ms(), "lever", what))

    def _caveats(self) -> str:
        facts = self._facts
        if facts is None:
            return ""
        values = list(facts.settings.values())
        untried = facts.ordinary_on is None and not facts.cluster
        hides = any(SUPER_USERS_SETTING in each and each[SUPER_USERS_SETTING] is None for each in values)
        return (_UNTRIED if untried else "") + (_HIDDEN if hides else "")

"""Leaves out repeats of a producer id within a tick of the streams that read the events: they change nothing there.

The rule is that of `streaming.decode.forwarded`, told from this tap's events alone. A repeat has the kind, broker and
client of the event before it, in the same tick, while the principal's time stood still: no event of a later tick came
between, nor one that may be late, since that may make known what was refused. So whatever the principal sends by
another way (`forget`) ends what is remembered of it.

Other brokers' lines lag behind the newest one's. An event of an older tick counts for the time that has come, so its
repeats are known only until the principal's next event of the newest tick.
"""

from broker.attribution.ticks import SECONDS, Ticks

MAX_REMEMBERED = 100_000
"""Producer ids, of a tick and one before; what is beyond is forgotten: a flood has no repeats."""
_MAY_BE_LATE_MS = 60_000
"""Less than the grace of any stream, less a tick."""

WAITING = ""
"""Stands for the principal of batches that wait for one: those of a producer id are sent together."""
How = tuple[str, int | None, bool, int | None]
"""What a repeat has in common with the event before: client id, broker, `learning`, `asked_at_ms`."""


class _Piece:
    """What was sent in a piece of time, by principal and producer id."""

    __slots__ = ("_kinds", "_left", "begin_ms", "end_ms", "sent")

    def __init__(self, begin_ms: int = 0, end_ms: int = 0) -> None:
        self.begin_ms, self.end_ms = begin_ms, end_ms
        self.sent: dict[str, dict[int, How]] = {}
        self._kinds: dict[How, How] = {}
        self._left = MAX_REMEMBERED

    def add(self, principal: str, producer_id: int, how: How) -> None:
        if not self._left:
            self.sent.clear()
            self._kinds.clear()
            self._left = MAX_REMEMBERED
        self._left -= 1
        sent = self.sent.get(principal)
        if sent is None:
            sent = self.sent[principal] = {}
        sent[producer_id] = self._kinds.setdefault(how, how)


class Deduplicator:
    """Remembers what a tap, of all its brokers, has sent in the newest tick and in one before."""

    def __init__(self) -> None:
        self._ticks = SECONDS
        self._now, self._before = _Piece(), _Piece()

    def use(self, ticks: Ticks) -> None:
        """Leave out by other ticks from now on."""
        if ticks != self._ticks:
            self._ticks = ticks
            self._now, self._before = _Piece(), _Piece()

    def is_repeat(self, timestamp_ms: int, producer_id: int, principal: str, how: How) -> bool:
        """Whether an event may be left out; it is remembered as sent if not."""
        now = self._now
        if not now.begin_ms <= timestamp_ms < now.end_ms:
            if timestamp_ms < now.begin_ms:
                return self._is_old_repeat(timestamp_ms, producer_id, principal, how)
            now = self._advance(timestamp_ms)
        sent = now.sent.get(principal)
        if sent is not None and sent.get(producer_id) == how:
            return True
        now.add(principal, producer_id, how)
        if principal in self._before.sent:
            del self._before.sent[principal]
        return False

    def forget(self, principal: str) -> None:
        """Forget a principal: events of it were sent that were not asked for here."""
        self._now.sent.pop(principal, None)
        self._before.sent.pop(principal, None)

    def forget_waiting(self, producer_id: int) -> None:
        """Forget that batches of a producer id wait for its owner."""
        self._now.sent.get(WAITING, {}).pop(producer_id, None)
        self._before.sent.get(WAITING, {}).pop(producer_id, None)

    def _advance(self, timestamp_ms: int) -> _Piece:
        self._before, self._now = self._now, _Piece(*self._ticks.piece_of(timestamp_ms))
        return self._now

    def _is_old_repeat(self, timestamp_ms: int, producer_id: int, principal: str, how: How) -> bool:
        before = self._before
        if not before.begin_ms <= timestamp_ms < before.end_ms:
            before = self._before = _Piece(*self._ticks.piece_of(timestamp_ms))
        if before.sent.get(principal, {}).get(producer_id) == how:
            return True
        before.add(principal, producer_id, how)
        if timestamp_ms < self._now.begin_ms - _MAY_BE_LATE_MS:
            self._now.sent.pop(principal, None)
        return False

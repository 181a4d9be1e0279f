"""Bindings of producer ids, batches that wait for one, and late corrections. Pure.

A batch that no rule can attribute waits here. If its binding arrives in time, it is sent with its principal; at the
timeout it is sent as `unknown`, and one correction follows if the binding arrives later.
"""

from dataclasses import dataclass

from msgspec.structs import replace

from broker.attribution.attribution_counters import OwnerCounters
from broker.attribution.bindings import Bindings
from broker.attribution.deduplicator import Deduplicator
from quota.principals import UNKNOWN_PRINCIPAL
from wire.records import Binding, ProduceEvent

WAIT_S = 30.0
"""How long a batch waits for its binding: another broker's tap may lag this much."""

MAX_WAITING = 10_000
MAX_UNKNOWN = 100_000
_DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True)
class _Waiting:
    deadline_s: float
    event: ProduceEvent


class Owners:
    """One per tap, shared by all brokers it reads."""

    def __init__(
        self,
        bindings: Bindings,
        *,
        wait_s: float = WAIT_S,
        max_waiting: int = MAX_WAITING,
        max_unknown: int = MAX_UNKNOWN,
    ) -> None:
        """Begin with what `bindings` holds.

        Args:
            bindings: the known ones.
            wait_s: how long a batch waits for its binding.
            max_waiting: most batches that wait; beyond it the oldest are sent as `unknown`.
            max_unknown: producer ids remembered for a correction.
        """
        self.counters = OwnerCounters()
        self.repeats = Deduplicator()
        self._bindings = bindings
        self._wait_s = wait_s
        self._max_waiting = max_waiting
        self._max_unknown = max_unknown
        # Both in order of arrival: the clock is monotonic.
        self._waiting: dict[int, list[_Waiting]] = {}
        self._waits = 0
        self._unknown: dict[int, ProduceEvent] = {}
        self._announced_ms: dict[int, int] = {}

    def find(self, producer_id: int) -> Binding | None:
        """The binding of an id, however old, from any broker."""
        return self._bindings.find(producer_id)

    def find_hot(self, producer_id: int) -> Binding | None:
        """The binding of an id if it is in memory: enough for reporting."""
        return self._bindings.find_hot(producer_id)

    def bind(self, binding: Binding, *, hot: bool = True) -> list[ProduceEvent] | None:
        """Add a binding.

        Returns:
            The batches that waited for it, and a correction if one is due; None if one as new is known.
        """
        if not self._bindings.add(binding, hot=hot):
            return None
        return self.release(binding)

    def release(self, binding: Binding) -> list[ProduceEvent]:
        """Remove and return the batches that waited for a binding, and a correction if one is due."""
        producer_id = binding.producer_id
        out = [_placed(waiting.event, binding) for waiting in self._waiting.pop(producer_id, ())]
        self._waits -= len(out)
        self.counters.placed_late += len(out)
        sent = self._unknown.pop(producer_id, None)
        if sent is not None:
            self.counters.corrections += 1
            out.append(replace(_placed(sent, binding), correction=True))
        if out:
            self.repeats.forget(binding.principal)
            self.repeats.forget_waiting(producer_id)
        return out

    def wait(self, event: ProduceEvent, now_s: float) -> list[ProduceEvent]:
        """Hold a batch until its binding arrives; return those evicted to make room, as `unknown`."""
        self.counters.waited += 1
        self._waiting.setdefault(event.producer_id, []).append(_Waiting(now_s + self._wait_s, event))
        self._waits += 1
        out: list[ProduceEvent] = []
        while self._waits > self._max_waiting:
            out += self._give_up(next(iter(self._waiting)))
        return out

    def expire(self, now_s: float) -> list[ProduceEvent]:
        """Remove and return batches that timed out, as `unknown`."""
        out: list[ProduceEvent] = []
        while self._waiting:
            first = next(iter(self._waiting))
            if self._waiting[first][0].deadline_s > now_s:
                break
            out += self._give_up(first)
        return out

    def waiting(self) -> list[ProduceEvent]:
        """All waiting batches, to be saved across a crash."""
        return [waiting.event for each in self._waiting.values() for waiting in each]

    def is_due(self, binding: Binding, now_ms: int) -> bool:
        """Whether to announce a binding in use again before the topic's retention drops it; true once a day."""
        producer_id = binding.producer_id
        last_ms = self._announced_ms.get(producer_id, binding.timestamp_ms)
        if now_ms - last_ms <= _DAY_MS:
            return False
        self.announced(producer_id, now_ms)
        return True

    def announced(self, producer_id: int, when_ms: int) -> None:
        """Note when the topic's record of a binding was written."""
        self._announced_ms.pop(producer_id, None)
        self._announced_ms[producer_id] = when_ms
        if len(self._announced_ms) > self._max_unknown:
            del self._announced_ms[next(iter(self._announced_ms))]

    def _give_up(self, producer_id: int) -> list[ProduceEvent]:
        events = [waiting.event for waiting in self._waiting.pop(producer_id)]
        self._waits -= len(events)
        self.counters.unplaced += len(events)
        self.repeats.forget(UNKNOWN_PRINCIPAL)
        self.repeats.forget_waiting(producer_id)
        self._unknown.pop(producer_id, None)
        self._unknown[producer_id] = events[-1]
        if len(self._unknown) > self._max_unknown:
            del self._unknown[next(iter(self._unknown))]
        return events


def unplaced(
    timestamp_ms: int,
    producer_id: int,
    epoch: int,
    broker_id: int | None,
    topic: str,
    partition: int,
    *,
    learning: bool = False,
) -> ProduceEvent:
    """The event of a batch that no rule can attribute."""
    where = (broker_id, topic, partition)
    return ProduceEvent(timestamp_ms, UNKNOWN_PRINCIPAL, producer_id, epoch, *where, learning=learning)


def _placed(event: ProduceEvent, binding: Binding) -> ProduceEvent:
    return replace(
        event,
        principal=binding.principal,
        client_id=binding.client_id or None,
        transactional_id=binding.transactional_id,
    )

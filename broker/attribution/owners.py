"""Whom producer ids belong to, and what waits to be told: bindings, batches without one, and late corrections. Pure.

A batch that no rule can place waits here. When its binding comes in time, it goes out with its principal.
When the time is up, it goes out once as principal `unknown`; if the binding comes after all, one correction follows.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from broker.attribution.attribution_counters import OwnerCounters
from broker.attribution.bindings import Bindings
from quota.principals import UNKNOWN_PRINCIPAL
from wire.records import Binding, ProduceEvent

WAIT_S = 30.0
"""How long a batch waits for its binding: another broker's tap may be that much behind."""

MAX_WAITING = 10_000
MAX_UNKNOWN = 100_000
_DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True)
class _Waiting:
    deadline_s: float
    event: ProduceEvent


class Owners:
    """One for a tap, shared by all brokers that it reads of."""

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
            bindings: where they are remembered.
            wait_s: how long a batch waits for its binding.
            max_waiting: how many do; beyond it the first ones go out as `unknown` at once.
            max_unknown: producer ids that a correction can still be made for.
        """
        self.counters = OwnerCounters()
        self._bindings = bindings
        self._wait_s = wait_s
        self._max_waiting = max_waiting
        self._max_unknown = max_unknown
        # Both in the order of their coming: the clock does not go back.
        self._waiting: dict[int, list[_Waiting]] = {}
        self._waits = 0
        self._unknown: dict[int, ProduceEvent] = {}
        self._announced_ms: dict[int, int] = {}

    def find(self, producer_id: int) -> Binding | None:
        """Whom an id was handed out to, also if that was long ago or on another broker."""
        return self._bindings.find(producer_id)

    def find_hot(self, producer_id: int) -> Binding | None:
        """The same, if it can be said at once: enough for what only is reported."""
        return self._bindings.find_hot(producer_id)

    def bind(self, binding: Binding, *, hot: bool = True) -> list[ProduceEvent] | None:
        """Learn a binding.

        Returns:
            The batches that waited for it, and the correction if there has to be one; None if one as new is known.
        """
        if not self._bindings.add(binding, hot=hot):
            return None
        return self.release(binding)

    def release(self, binding: Binding) -> list[ProduceEvent]:
        """The batches that waited for a binding, and the correction if there has to be one; they wait no longer."""
        producer_id = binding.producer_id
        out = [_placed(waiting.event, binding) for waiting in self._waiting.pop(producer_id, ())]
        self._waits -= len(out)
        self.counters.placed_late += len(out)
        sent = self._unknown.pop(producer_id, None)
        if sent is not None:
            self.counters.corrections += 1
            out.append(replace(_placed(sent, binding), correction=True))
        return out

    def wait(self, event: ProduceEvent, now_s: float) -> list[ProduceEvent]:
        """Keep a batch until its binding comes; hands back those that have to make room, as `unknown`."""
        self.counters.waited += 1
        self._waiting.setdefault(event.producer_id, []).append(_Waiting(now_s + self._wait_s, event))
        self._waits += 1
        out: list[ProduceEvent] = []
        while self._waits > self._max_waiting:
            out += self._give_up(next(iter(self._waiting)))
        return out

    def expire(self, now_s: float) -> list[ProduceEvent]:
        """The batches whose time is up, as `unknown`."""
        out: list[ProduceEvent] = []
        while self._waiting:
            first = next(iter(self._waiting))
            if self._waiting[first][0].deadline_s > now_s:
                break
            out += self._give_up(first)
        return out

    def waiting(self) -> list[ProduceEvent]:
        """All that wait now: what has to be kept over a crash."""
        return [waiting.event for each in self._waiting.values() for waiting in each]

    def is_due(self, binding: Binding, now_ms: int) -> bool:
        """Whether a binding in use has to be announced again, since the topic forgets; true once per day."""
        producer_id = binding.producer_id
        last_ms = self._announced_ms.get(producer_id, binding.timestamp_ms)
        if now_ms - last_ms <= _DAY_MS:
            return False
        self.announced(producer_id, now_ms)
        return True

    def announced(self, producer_id: int, when_ms: int) -> None:
        """Note that the topic holds a binding, written at that time."""
        self._announced_ms.pop(producer_id, None)
        self._announced_ms[producer_id] = when_ms
        if len(self._announced_ms) > self._max_unknown:
            del self._announced_ms[next(iter(self._announced_ms))]

    def _give_up(self, producer_id: int) -> list[ProduceEvent]:
        events = [waiting.event for waiting in self._waiting.pop(producer_id)]
        self._waits -= len(events)
        self.counters.unplaced += len(events)
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
    """The event of a batch that no rule can place."""
    where = (broker_id, topic, partition)
    return ProduceEvent(timestamp_ms, UNKNOWN_PRINCIPAL, producer_id, epoch, *where, learning=learning)


def _placed(event: ProduceEvent, binding: Binding) -> ProduceEvent:
    return replace(
        event,
        principal=binding.principal,
        client_id=binding.client_id or None,
        transactional_id=binding.transactional_id,
    )

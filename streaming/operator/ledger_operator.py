"""The stateful operator: passes events and quotas to ledgers, and returns the ledgers' rows."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd
from msgspec import to_builtins
from msgspec.structs import replace as replace_struct

from quota.decision import Decision
from quota.limits import UNLIMITED, Limit
from quota.principals import NEVER_ENFORCED, OVERFLOW_PRINCIPALS
from state.errors import LedgerCodecError
from state.events import Deployment, Outcome
from state.learning import Learning
from state.ledger import Ledger
from state.pid_uses import NO_USES, PidUses, observed
from streaming.batch.context import MAX_EVENT_TIME
from streaming.batch.tasks import TaskBatch, freeze_gc
from streaming.batch.tracked_principals import FORGOTTEN, OVERFLOWED, TRACKED, code_of
from streaming.operator.group_events import Arrived, arrived
from streaming.operator.ledger_group import LedgerGroup, StoredLedger
from streaming.operator.rows import Rows, pack
from wire.packed_events import PackedEvents, Quarantined, unpack

STATE_SCHEMA = "ledger BINARY"
OVERFLOW_BYTES = 64 * 1024
"""Maximum `max_uncharged_bytes` of an overflow entry, which is a ledger that many principals share."""


@dataclass(frozen=True)
class Operator:
    """The function of `applyInPandasWithState`: applies a group's events to its ledgers."""

    deployment: Deployment
    batch: TaskBatch

    def __call__(self, key: tuple[Any], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        """Process one group in a batch.

        Args:
            key: The number of the state bucket, or the principal.
            frames: Rows of `wire.packed_events.PRE_AGGREGATE_SCHEMA`; empty if the group's timeout has fired.
            state: Spark's `GroupState` of `STATE_SCHEMA`.

        Yields:
            Rows of `streaming.operator.rows.OUTPUT_SCHEMA`.
        """
        freeze_gc()
        pre_aggregates, bad = ([], []) if state.hasTimedOut else _read(frames)
        found = arrived(pre_aggregates, self.deployment.salt)
        times = self.batch.context().before.event_times
        output: Rows = [("quarantined_events", quarantined_row(record)) for record in sorted(bad, key=_place)]
        group = self._open_group(key[0], found, state, output)
        for principal in sorted(found):
            output += self._apply(principal, found[principal], group)
        for principal, held in group.throttled(found).items():
            output += self._change_quota_of_silent(principal, held, group)
        for principal in group.expired(times, found):
            output += self._forget(principal, group)
        output += _max_event_times(found, times, self.deployment)
        group.store(times, self.deployment.config.quantum_ms)
        if output:
            yield pack(output)

    def _open_group(self, name: object, found: Mapping[str, Arrived], state: Any, output: Rows) -> LedgerGroup:
        """Open a group. If the state can't be read, report the loss, and start an empty group that learns."""
        try:
            return LedgerGroup(state)
        except LedgerCodecError as error:
            newest_ms = max((ms for each in found.values() for ms in each.newest_ms.values()), default=0)
            output.append(_lost(f"ledgers of group {name} lost: {error}", newest_ms))
            return LedgerGroup(state, self._learning(newest_ms))

    def _apply(self, principal: str, own: Arrived, group: LedgerGroup) -> Rows:
        """Apply a principal's events to its ledger, and return the ledger's rows."""
        events, held = own.events, group.get(principal)
        stored = None if held is None else held.content
        ledger, output = self._open_ledger(principal, stored, events.timestamps_ms[0])
        if principal in OVERFLOW_PRINCIPALS:
            output.append((OVERFLOWED, max(events.timestamps_ms)))
        elif stored is None:
            output.append((TRACKED, code_of(principal)))
            ledger.extend_learning(self._learning_of_new(events.timestamps_ms[0], group))
        outcome = ledger.process(events, self._limit(principal))
        before = NO_USES if held is None else held.uses
        uses = before if principal in OVERFLOW_PRINCIPALS else observed(before, events, self.deployment)
        is_same = outcome.content is stored and uses is before
        if held is not None and is_same and own.partition() == held.partition:
            return output
        group.put(principal, self._stored(ledger, own.partition(), outcome, uses))
        return output + table_bodies(outcome, uses)

    def _change_quota_of_silent(self, principal: str, held: StoredLedger, group: LedgerGroup) -> Rows:
        """Apply a changed quota to a throttled principal without events, and return the ledger's rows."""
        now_ms = self._now_ms(held.partition)
        if held.throttled_until_ms <= now_ms:
            group.put(principal, replace_struct(held, throttled_until_ms=0))
            return []
        try:
            ledger = self._ledger(principal, held.content)
            outcome = ledger.change_quota(self._limit(principal), now_ms)
        except LedgerCodecError:
            # The ledger can't be read. The principal's next event reports the loss.
            return []
        if outcome is None:
            return []
        group.put(principal, self._stored(ledger, held.partition, outcome, held.uses))
        return table_bodies(outcome, held.uses)

    def _now_ms(self, partition: int) -> int:
        """Return the batch's time for a principal without events.

        The time is the batch's start or the end of the partition's newest event-time step
        (`Deployment.event_time_step`), whichever is earlier. With a later time, the next events of a lagging stream
        would be late, and would not be charged.
        """
        newest_ms = self.batch.context().before.event_times.get(partition, 0)
        _, most_ms = self.deployment.event_time_step(newest_ms)
        begin_ms = self.batch.context().begin_ms
        return most_ms if begin_ms is None else min(begin_ms, most_ms)

    def _limit(self, principal: str) -> Limit:
        return UNLIMITED if principal in NEVER_ENFORCED else self.batch.context().quotas.find(principal)

    def _stored(self, ledger: Ledger, partition: int, outcome: Outcome, uses: PidUses) -> StoredLedger:
        # Keep the ledger a window longer than the rules need. One broker's plugin may lag behind another by a window.
        forget_ms = ledger.expires_ms() + self.deployment.config.window_ms
        told = replace_struct(uses, is_told=True) if outcome.metrics and not uses.is_told else uses
        return StoredLedger(forget_ms, partition, outcome.content, ledger.throttled_until_ms(), told)

    def _forget(self, principal: str, group: LedgerGroup) -> Rows:
        """Evict an expired ledger, and return its last rows."""
        held = group.get(principal)
        stored = b"" if held is None else held.content
        group.put(principal, None)
        forgotten: Rows = [] if principal in OVERFLOW_PRINCIPALS else [(FORGOTTEN, code_of(principal))]
        try:
            return [*table_bodies(self._ledger(principal, stored).expire()), *forgotten]
        except LedgerCodecError as error:
            return [_lost(f"ledger of {principal} lost: {error}", 0, stored), *forgotten]

    def _open_ledger(self, principal: str, stored: bytes | None, first_ms: int) -> tuple[Ledger, Rows]:
        """Open the stored ledger. If the bytes can't be read, report the loss, and open a new ledger that learns."""
        try:
            return self._ledger(principal, stored), []
        except LedgerCodecError as error:
            ledger = self._ledger(principal, None)
            ledger.extend_learning(self._learning(first_ms))
            return ledger, [_lost(f"ledger of {principal} lost: {error}", first_ms, stored or b"")]

    def _learning_of_new(self, first_ms: int, group: LedgerGroup) -> Learning:
        """Return when a new ledger learns, because its principal may have used PIDs that no ledger remembers.

        `first_ms` is the time of the principal's first event.
        """
        # An overflow entry may have held the principal's PIDs until now.
        overflowed_ms = self.batch.context().before.tracked.overflowed_ms
        if overflowed_ms and first_ms < overflowed_ms + self.deployment.config.window_ms:
            return group.learning.later(self._learning(first_ms))
        return group.learning

    def _learning(self, begin_ms: int) -> Learning:
        """Return a window of learning after PIDs were lost."""
        return Learning(begin_ms + self.deployment.config.window_ms, self.batch.context().next_producer_id)

    def _ledger(self, principal: str, stored: bytes | None) -> Ledger:
        return Ledger(principal, self._overflow if principal in OVERFLOW_PRINCIPALS else self.deployment, stored)

    @cached_property
    def _overflow(self) -> Deployment:
        config = self.deployment.config
        most = min(OVERFLOW_BYTES, config.max_uncharged_bytes)
        return replace(self.deployment, config=replace(config, max_uncharged_bytes=most))


def _read(frames: Iterator[pd.DataFrame]) -> tuple[list[tuple[str, PackedEvents]], list[Quarantined]]:
    pre_aggregates: list[tuple[str, PackedEvents]] = []
    bad: list[Quarantined] = []
    for frame in frames:
        for principal, packed in zip(frame["principal"].tolist(), frame["packed"].tolist(), strict=True):
            content = unpack(packed)
            if isinstance(content, PackedEvents):
                pre_aggregates.append((principal, content))
            else:
                bad += content.records
    return pre_aggregates, bad


def _place(record: Quarantined) -> tuple[str, int, int]:
    return record.topic, record.partition, record.offset


def _max_event_times(found: Mapping[str, Arrived], times: Mapping[int, int], deployment: Deployment) -> Rows:
    """Return a row for each partition whose newest event-time step is later than its step in `times`."""
    newest: dict[int, int] = {}
    for each in found.values():
        for partition, newest_ms in each.newest_ms.items():
            if newest_ms > newest.get(partition, 0):
                newest[partition] = newest_ms
    begins = {partition: deployment.event_time_step(newest_ms)[0] for partition, newest_ms in sorted(newest.items())}
    return [(MAX_EVENT_TIME, (partition, ms)) for partition, ms in begins.items() if ms > times.get(partition, 0)]


def _lost(reason: str, now_ms: int, stored: bytes = b"") -> tuple[str, dict[str, Any]]:
    return "quarantined_events", quarantined_row(Quarantined(stored, reason, "", -1, -1, now_ms))


def table_bodies(outcome: Outcome, uses: PidUses = NO_USES) -> Rows:
    """Return a ledger's outcome as table rows, decisions first. The last metrics row has the uses of PIDs, if new."""
    rows: Rows = [("throttle_decisions", decision_row(decision)) for decision in outcome.decisions]
    rows += [("producer_id_metrics", row) for row in outcome.metrics]
    if outcome.metrics and not uses.is_told:
        rows[-1] = ("producer_id_metrics", to_builtins(outcome.metrics[-1]) | uses.row())
    return rows


def decision_row(decision: Decision) -> dict[str, Any]:
    """Return a decision as a row of `throttle_decisions`, with times in milliseconds."""
    row = asdict(decision)
    evidence: dict[str, Any] = row.pop("evidence")
    return _without_unit(row) | evidence


def quarantined_row(record: Quarantined) -> dict[str, Any]:
    """Return a bad record as a row of `quarantined_events`, with the time in milliseconds."""
    row = record._asdict()
    return row | {"record_timestamp": row.pop("record_ms")}


def _without_unit(row: dict[str, Any]) -> dict[str, Any]:
    times = {"decided_at_ms", "throttled_until_ms", "quota_updated_at_ms"}
    return {name.removesuffix("_ms") if name in times else name: value for name, value in row.items()}

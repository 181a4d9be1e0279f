"""Scope `broker`, the KIP's way: a principal has one budget and one ledger per broker."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from quota.limits import Limit
from state.codec import BrokersState, decode_brokers, encode_brokers
from state.events import Deployment, Events, Outcome
from state.ledger import Ledger

if TYPE_CHECKING:
    from state.ledger_batch import LedgerBatch


class BrokerLedgers:
    """The ledgers of one principal, one per broker. Not thread-safe.

    A PID that any of these ledgers knows takes no token. In the KIP, a PID takes another token when the leader of its
    partition changes.

    Examples:
        >>> from quota.limits import Limit
        >>> ledgers = BrokerLedgers("User:alice", Deployment(scope="broker"))
        >>> moved = Events([7, 7], [0, 0], [("", ""), ("", "")], [False, False], broker_ids=[1, 2])
        >>> [(row.broker_id, row.admitted_pids) for row in ledgers.process(moved, Limit(9.0, "user")).metrics]
        [(1, 1), (2, 0)]
    """

    def __init__(self, principal: str, deployment: Deployment, content: bytes | None = None) -> None:
        """Open the ledgers. Arguments and errors are those of `Ledger`."""
        self._principal = principal
        self._deployment = deployment
        stored = decode_brokers(content) if content else BrokersState()
        self._learn_until_ms = stored.learn_until_ms
        self._ledgers = {
            broker_id: Ledger(principal, deployment, ledger, broker_id) for broker_id, ledger in stored.ledgers.items()
        }

    def to_bytes(self) -> bytes:
        """Return the bytes to store."""
        ledgers = {broker_id: ledger.to_bytes() for broker_id, ledger in self._ledgers.items()}
        return encode_brokers(BrokersState(ledgers, self._learn_until_ms))

    def learn_again(self, until_ms: int) -> None:
        """Learn until the event time `until_ms`, because the state was lost."""
        self._learn_until_ms = max(self._learn_until_ms, until_ms)

    def process(self, events: Events, limit: Limit) -> Outcome:
        """Apply events in offset order. The quota applies to each broker separately."""
        batches = self._reached_by(limit, events.timestamps_ms[0]) if events.pids else {}
        for broker_id, rows in groupby(range(len(events.pids)), key=events.broker_ids.__getitem__):
            part = list(rows)
            batch = batches.get(broker_id)
            if batch is None:
                batch = batches[broker_id] = self._open(broker_id).batch(limit, events.timestamps_ms[part[0]])
            run = slice(part[0], part[-1] + 1)
            batch.feed(
                Events(
                    events.pids[run],
                    events.timestamps_ms[run],
                    events.clients[run],
                    events.kinds[run],
                    hashes=events.hashes[run],
                ),
                self._knows,
            )
        outcomes = [batches[broker_id].end() for broker_id in sorted(batches)]
        return self._joined(outcomes)

    def expires_ms(self) -> int:
        """Return the event time at which all ledgers have expired and learning has ended."""
        return max([self._learn_until_ms, *(ledger.expires_ms() for ledger in self._ledgers.values())])

    def expire(self) -> Outcome:
        """Return the last rows of each broker (see `Ledger.expire`)."""
        return self._joined([self._ledgers[broker_id].expire() for broker_id in sorted(self._ledgers)])

    def throttled_until_ms(self) -> int:
        """Return when the last throttle ends, in ms since the epoch; 0 if no throttle is in force."""
        return max((ledger.throttled_until_ms() for ledger in self._ledgers.values()), default=0)

    def change_quota(self, limit: Limit, at_ms: int) -> Outcome | None:
        """Apply a changed quota to all throttles in force. Return None if no throttle is affected."""
        batches = self._reached_by(limit, at_ms)
        return self._joined([batches[broker_id].end() for broker_id in sorted(batches)]) if batches else None

    def _reached_by(self, limit: Limit, at_ms: int) -> "dict[int, LedgerBatch]":
        """Open a batch on each ledger whose throttle was decided under a quota other than `limit`.

        Such a ledger needs a batch even without events. Otherwise, results would depend on where batches end.
        """
        return {
            broker_id: ledger.batch(limit, at_ms)
            for broker_id, ledger in self._ledgers.items()
            if ledger.is_throttled_by_another(limit, at_ms)
        }

    def _open(self, broker_id: int) -> Ledger:
        ledger = self._ledgers.get(broker_id)
        if ledger is None:
            ledger = self._ledgers[broker_id] = Ledger(self._principal, self._deployment, broker_id=broker_id)
            if self._learn_until_ms:
                ledger.learn_again(self._learn_until_ms)
        return ledger

    def _knows(self, pid_hash: int, timestamp_ms: int) -> bool:
        return any(ledger.knows(pid_hash, timestamp_ms) for ledger in self._ledgers.values())

    def _joined(self, outcomes: Sequence[Outcome]) -> Outcome:
        return Outcome(
            tuple(decision for outcome in outcomes for decision in outcome.decisions),
            tuple(row for outcome in outcomes for row in outcome.metrics),
            self.to_bytes(),
        )

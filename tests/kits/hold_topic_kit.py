"""A topic of holds in memory: it keeps what it is given, as the brokers' topic does."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from broker.enforcement.hold_state import HoldState, Read
from broker.enforcement.model import Change
from broker.errors import HoldNotWrittenError
from wire.holds import WriterRecord, hold_key, is_of_writer, release_key, writer_headers, writer_key

CLUSTER = "cluster-1"
_STATE = {"run": "r", "plugin_version": "1", "kafka_version": "4", "repeat_ms": 30_000, "window_ms": 3_600_000}


@dataclass
class MemoryTopic:
    """`pid-quota-holds` and `pid-quota-reports` in memory, with a clock that the test sets.

    Attributes:
        appended_ms: what the brokers' clocks show.
        steady_ms: what the monotonic clock shows.
        is_down: whether a write fails.
    """

    appended_ms: int
    steady_ms: int = 0
    is_down: bool = False
    state: HoldState = field(default_factory=lambda: HoldState(CLUSTER))
    records: list[Read] = field(default_factory=list)
    reports: list[Read] = field(default_factory=list)

    def pass_ms(self, ms: int) -> None:
        """Let time pass on all clocks."""
        self.appended_ms += ms
        self.steady_ms += ms

    def poll(self, wait_s: float = 0) -> None:
        """Take new records of both topics."""
        del wait_s
        self.state.see_reports(self.reports, self.steady_ms)
        self.reports.clear()
        self.state.see_holds(self.records[self.state.offset + 1 :], self.steady_ms)

    def write(self, changes: Iterable[Change]) -> int:
        """Write records, unless the topic is down."""
        if self.is_down:
            msg = "the topic has no leader"
            raise HoldNotWrittenError(msg)
        for each in changes:
            self.append(hold_key(each.principal), msgspec.json.encode(each.hold) if each.hold else None)
        self.poll()
        return len(self.records) - 1

    def announce(self, record: WriterRecord) -> int:
        """Write that a stream is alive, unless the topic is down."""
        if self.is_down:
            msg = "the topic has no leader"
            raise HoldNotWrittenError(msg)
        headers = tuple(writer_headers(record))
        self.records.append(Read(len(self.records), self.appended_ms, writer_key(record.writer), None, False, headers))
        self.poll()
        return len(self.records) - 1

    def append(self, key: bytes, value: bytes | None) -> None:
        """Append a record of any program."""
        self.records.append(Read(len(self.records), self.appended_ms, key, value))

    def of_holds(self) -> list[Read]:
        """Return the records of holds and releases, without those of writers."""
        return [each for each in self.records if not is_of_writer(each.key)]

    def release(self, principal: str, release_ms: int, cluster_id: str = CLUSTER) -> None:
        """Release a principal."""
        value = {"version": 1, "cluster_id": cluster_id, "release_ms": release_ms, "by": "carol"}
        self.append(release_key(principal), msgspec.json.encode(value))

    def alive(self, broker_id: int = 1, *, has_authorizer: bool = True, cluster_id: str = CLUSTER) -> None:
        """Report that a broker's plugin is alive."""
        self._report("alive", broker_id, cluster_id, _STATE | {"has_authorizer": has_authorizer})

    def stop(self, broker_id: int) -> None:
        """Report that a broker's plugin ends."""
        self._report("stop", broker_id, CLUSTER, _STATE)

    def obey(self, broker_id: int = 1, held: Sequence[dict[str, Any]] = (), ignored: str | None = None) -> None:
        """Report that a broker obeys all records."""
        report = {"offset": len(self.records) - 1, "held": list(held), "ignored": ignored}
        self._report("hold", broker_id, CLUSTER, report)

    def _report(self, kind: str, broker_id: int, cluster_id: str, rest: dict[str, Any]) -> None:
        report = {"type": kind, "timestamp_ms": self.appended_ms, "broker_id": broker_id, "cluster_id": cluster_id}
        self.reports.append(Read(len(self.reports), self.appended_ms, None, msgspec.json.encode(report | rest)))


def held(principal: str, **more: Any) -> dict[str, Any]:
    """Return a hold in a broker's report."""
    return {"principal": principal, "since_ms": 1, "ends_ms": 2} | more

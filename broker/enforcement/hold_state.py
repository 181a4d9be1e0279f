"""What `pid-quota-holds` and `pid-quota-reports` say: who is on hold, who is released, and what each broker does."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata

from broker.enforcement.brokers_time import BrokersTime
from broker.enforcement.model import HeldRecord, ReleaseRecord, Writer
from wire.holds import Headers, Hold, Release, WriterRecord, parse_hold_record, parse_writer_record
from wire.plugin_reports import HeldPrincipal, HoldReport, PluginState, StopReport, is_overtaken, parse_report

ALIVE_MS = 30_000
"""A plugin reports every 10 s. One that is silent for longer does not run."""


@dataclass(frozen=True)
class Read:
    """A record that was read. `is_old` tells that it was in the topic before the reader began."""

    offset: int
    appended_ms: int
    key: bytes | None
    value: bytes | None
    is_old: bool = False
    headers: Headers = ()


@dataclass(frozen=True)
class BrokerState:
    """The newest reports of a broker's plugin. `steady_ms` is when the last one arrived, by the monotonic clock."""

    state: PluginState | None = None
    holds: HoldReport | None = None
    steady_ms: int = 0


class HoldState:
    """The newest records of both topics. Not thread-safe. Records of other clusters do not count."""

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.time = BrokersTime()
        self.holds: dict[str, HeldRecord] = {}
        self.releases: dict[str, ReleaseRecord] = {}
        self.writers: dict[str, Writer] = {}
        self.brokers: dict[int, BrokerState] = {}
        self.offset = -1
        """Offset of the last record of `pid-quota-holds`."""

    def see_holds(self, records: Iterable[Read], steady_ms: int) -> None:
        """Take records of `pid-quota-holds`, in order.

        As on the brokers, a hold counts from the moment when its record arrives. Only one from before the start counts
        from the time at which a broker appended it.
        """
        for record in records:
            if record.offset <= self.offset:
                # The topic was made anew.
                self.forget()
            self.offset = record.offset
            begin_ms = record.appended_ms
            if not record.is_old:
                now_ms = self.time.now_ms(steady_ms)
                begin_ms = record.appended_ms if now_ms is None else now_ms
            self._see(record, begin_ms)

    def _see(self, record: Read, begin_ms: int) -> None:
        writer = parse_writer_record(record.key, record.headers)
        if writer is not None:
            since = record.offset if writer.since is None else writer.since
            self.writers[writer.writer] = Writer(writer.epoch, since, begin_ms, writer.is_gone)
        found = parse_hold_record(record.key, record.value)
        if found is None or (found.content is not None and found.content.cluster_id != self.cluster_id):
            return
        match found.content:
            case Hold() as hold:
                self.holds[found.principal] = HeldRecord(found.principal, hold, begin_ms + hold.hold_ms)
            case Release() as release:
                self.releases[found.principal] = ReleaseRecord(found.principal, release, begin_ms + release.release_ms)
            case None:
                (self.releases if found.is_release else self.holds).pop(found.principal, None)

    def forget(self) -> None:
        """Forget holds and releases, because the topic is gone or was made anew."""
        self.holds.clear()
        self.releases.clear()
        self.writers.clear()
        self.offset = -1

    def announcement(self, writer: str, epoch: int, now_ms: int) -> WriterRecord:
        """Return what a stream has to say of itself: it goes on, or it begins after others that are alive."""
        known = self.writers.get(writer)
        goes_on = known is not None and known.is_live(now_ms)
        since = known.since if known is not None and goes_on else None
        return WriterRecord(writer, epoch, since, version=metadata.version("pid-quota"))

    def see_reports(self, records: Iterable[Read], steady_ms: int) -> None:
        """Take records of `pid-quota-reports`, in order."""
        for record in records:
            if record.is_old:
                self.time.observe_old(record.appended_ms, steady_ms)
            else:
                self.time.observe(record.appended_ms, steady_ms)
            report = parse_report(record.value)
            if report is None or report.cluster_id != self.cluster_id:
                continue
            known = self.brokers.get(report.broker_id, BrokerState())
            match report:
                case StopReport():
                    self.brokers.pop(report.broker_id, None)
                case PluginState():
                    self.brokers[report.broker_id] = BrokerState(report, known.holds, steady_ms)
                case HoldReport() if known.holds is None or not is_overtaken(report, known.holds.timestamp_ms):
                    self.brokers[report.broker_id] = BrokerState(known.state, report, steady_ms)
                case _:
                    pass

    def live(self, steady_ms: int) -> dict[int, BrokerState]:
        """Return the brokers whose plugin reports."""
        return {each: state for each, state in self.brokers.items() if steady_ms - state.steady_ms <= ALIVE_MS}

    def confirming(self, principal: str, steady_ms: int) -> list[int]:
        """Return the live brokers that hold a principal."""
        return sorted(each for each, state in self.live(steady_ms).items() if principal in _held(state.holds))

    def unconfirmed(self, offset: int, steady_ms: int) -> list[int]:
        """Return the live brokers that have the plugin's authorizer and have not obeyed the record at an offset."""
        found = self.live(steady_ms).items()
        return sorted(each for each, state in found if has_authorizer(state) and _offset(state) < offset)

    def held_by(self, broker_id: int) -> dict[str, HeldPrincipal]:
        """Return the principals that a broker holds."""
        return _held(self.brokers.get(broker_id, BrokerState()).holds)


def has_authorizer(broker: BrokerState) -> bool:
    """Return whether a broker has the plugin's authorizer."""
    return broker.holds is not None or (broker.state is not None and broker.state.has_authorizer)


def _offset(broker: BrokerState) -> int:
    return -1 if broker.holds is None else broker.holds.offset


def _held(report: HoldReport | None) -> dict[str, HeldPrincipal]:
    return {} if report is None else {each.principal: each for each in report.held if not each.ended}

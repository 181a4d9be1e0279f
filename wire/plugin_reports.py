"""Reports of the plugin `pidquota.Reporter` (`plugin/`): the records of the topic `pid-quota-reports`.

A report is a JSON object, keyed by the broker's id. A **run** of a plugin lasts until its broker stops, or until
someone unloads the plugin. The plugin cuts client ids and transactional ids to 256 characters, and principals to 4,096.
It appends a digest of the whole text to each cut text.
"""

from typing import Annotated

import msgspec

REPORTER_CLASS = "pidquota.Reporter"
"""Name of the plugin's class, for a broker's `metric.reporters`."""

# The largest time has the year 9999: tables and Python's datetime take no later one.
_Timestamp = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799_999)]
_BrokerId = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Milliseconds = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
_Int16 = Annotated[int, msgspec.Meta(ge=-(2**15), lt=2**15)]
_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Length = Annotated[int, msgspec.Meta(ge=1, lt=2**31)]


class PluginReport(msgspec.Struct, frozen=True, gc=False, tag_field="type"):
    """The fields of every report.

    Attributes:
        timestamp_ms: the broker's time, in ms since the epoch.
        cluster_id: id of the broker's cluster. A mirrored topic has reports of another cluster.
    """

    timestamp_ms: _Timestamp
    broker_id: _BrokerId
    cluster_id: str


class PluginState(PluginReport, frozen=True, kw_only=True):
    """The state of a plugin. The counters start at 0 with each run.

    Attributes:
        run: random id of the run.
        repeat_ms: the plugin writes a PID that is in use once in this time.
        window_ms: the plugin's window. It remembers for this time which PIDs it has written.
        next_producer_id: the lowest PID that the cluster has not given to a broker yet; None if unknown.
        learns_below: lower PIDs may be older than the plugin's watch; None if there is no bound.
        learns_until_ms: until then, events of PIDs below `learns_below` carry `learning`.
        has_authorizer: whether the broker's authorizer is `pidquota.HoldAuthorizer`.
        problem: why the plugin can't see the broker's producers or can't write events, or None.
        cluster_brokers: the brokers of the cluster, as the plugin sees them.
        events: delivered events.
        dropped_events: events that the plugin lost.
        waiting_pids: PIDs whose event is not delivered yet.
        dropped_inits: answers to INIT_PRODUCER_ID that exceeded the plugin's limit per second.
        ambiguous_inits: answers to INIT_PRODUCER_ID whose requests the plugin could not identify.
        forgotten_pids: PIDs that the plugin's memory had no room for. Their next use is written again.
    """

    run: str
    plugin_version: str
    kafka_version: str
    repeat_ms: _Milliseconds
    window_ms: _Milliseconds
    next_producer_id: _Count | None = None
    learns_below: _Count | None = None
    learns_until_ms: _Timestamp = 0
    has_authorizer: bool = False
    problem: str | None = None
    cluster_brokers: list[_BrokerId] = []
    events: _Count = 0
    dropped_events: _Count = 0
    waiting_pids: _Count = 0
    dropped_inits: _Count = 0
    ambiguous_inits: _Count = 0
    errors: _Count = 0
    forgotten_pids: _Count = 0


class StartReport(PluginState, frozen=True, kw_only=True, tag="start"):
    """The first report of a run."""


class AliveReport(PluginState, frozen=True, kw_only=True, tag="alive"):
    """A report that the plugin writes every 10 s."""


class StopReport(PluginState, frozen=True, kw_only=True, tag="stop"):
    """The last report of a run that ended cleanly.

    Attributes:
        shutdown: whether the broker shut down. If not, someone unloaded the plugin.
    """

    shutdown: bool = False


class InitReport(PluginReport, frozen=True, kw_only=True, gc=False, tag="init"):
    """An answer to INIT_PRODUCER_ID, and its request.

    Attributes:
        error: `NONE`, or the name of Kafka's error.
        transactional_id: None for a merely idempotent producer.
        producer_id: the PID that the client already had, or -1.
        result_producer_id: the PID that the client got; -1 after an error.
    """

    principal: str
    address: str
    error: str
    client_id: str | None = None
    transactional_id: str | None = None
    producer_id: _Int64 = -1
    producer_epoch: _Int16 = -1
    result_producer_id: _Int64 = -1
    result_producer_epoch: _Int16 = -1


class BlockReport(PluginReport, frozen=True, kw_only=True, gc=False, tag="block"):
    """A block of PIDs that the controller gave to the broker (KIP-730). `timestamp_ms` is the allocation's time.

    After a restart, a plugin may report a block again: readers drop doubles by `first_producer_id`.
    """

    broker_epoch: _Int64
    first_producer_id: _Count
    length: _Length


class HeldPrincipal(msgspec.Struct, frozen=True, kw_only=True):
    """A hold on one broker.

    Attributes:
        since_ms: when the hold came into force on this broker, in ms since the epoch by its clock.
        ends_ms: when it ends on this broker, unless a record extends it.
        held_requests: requests that the broker has refused because of the hold so far.
        let_in: requests for a new PID that the broker has let through so far.
        ended: why the hold has ended here: `expired`, `removed`, `released` or `limit`; empty while in force.
    """

    principal: str
    decision_id: str = ""
    writer: str = ""
    since_ms: _Timestamp
    ends_ms: _Timestamp
    held_requests: _Count = 0
    let_in: _Count = 0
    ended: str = ""


class HoldReport(PluginReport, frozen=True, kw_only=True, tag="hold"):
    """The holds of a broker: after each change, and every 10 s while there is one.

    Attributes:
        offset: offset of the last record of `pid-quota-holds` that the broker has obeyed; -1 for none.
        held: all holds in force, and, once, those that have ended since the report before.
        released: principals of the releases in force, `*` for all.
        ignored: why the broker ignored the newest record that it ignored, with its key; None if it ignored none.
    """

    offset: Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)] = -1
    held: list[HeldPrincipal] = []
    released: list[str] = []
    ignored: str | None = None


REPEATED_MS = 60_000
"""A report that was not delivered at first comes within this time. One that is older still tells of a clock's step."""


def is_overtaken(report: HoldReport, newest_ms: int) -> bool:
    """Return whether a report of a broker comes after a newer one, which was of `newest_ms`."""
    return 0 < newest_ms - report.timestamp_ms < REPEATED_MS


Report = StartReport | AliveReport | StopReport | InitReport | BlockReport | HoldReport

_report = msgspec.json.Decoder(Report)


def parse_report(value: bytes | None) -> Report | None:
    """Return the report in a record's value, or None if the value is not a report.

    Examples:
        >>> parse_report(b'{"type":"block","timestamp_ms":1,"broker_id":1,"cluster_id":"c"}') is None
        True
    """
    try:
        report: Report = _report.decode(value or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return report

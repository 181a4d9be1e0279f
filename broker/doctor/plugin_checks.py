"""Checks of the plugins, by their reports."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib import metadata

from broker.doctor.findings import Finding, ok, warning, wrong
from broker.errors import RemovalError
from broker.kafka.report_tail import DatedState
from wire.holds import HOLD_ANY_AUTHORIZER, HOLD_AUTHORIZER
from wire.plugin_reports import REPORTER_CLASS, AliveReport, PluginState, StopReport

MAX_SILENCE_MS = 60_000
"""A plugin that reports every 10 s has then missed six reports."""
MAX_CLOCK_SKEW_MS = 5_000
MAX_WAITING_PIDS = 1_000
"""At 1,000 new PIDs per second, about 50 PIDs wait at any time."""

UNDO = (
    f"take {REPORTER_CLASS} out of metric.reporters, and {HOLD_AUTHORIZER} or {HOLD_ANY_AUTHORIZER} out of "
    "authorizer.class.name, in server.properties of each broker, and restart it"
)
"""How to take the plugin out of brokers."""

_PAGE = "docs/plugin.md"


def check_plugins(brokers: Collection[int], states: Mapping[int, DatedState], now_ms: int) -> Iterator[Finding]:
    """Check that a plugin watches each of the running `brokers`, and check what the plugins report."""
    watched: list[PluginState] = []
    for broker_id in sorted(brokers):
        subject, dated = f"plugin, broker {broker_id}", states.get(broker_id)
        why = _silence(dated, now_ms)
        if why or dated is None:
            remedy = f"pid-quota plugin load {broker_id} ({_PAGE})"
            yield wrong(subject, f"not watched: {why}", remedy)
            continue
        watched.append(dated.state)
        if dated.state.problem:
            yield wrong(subject, dated.state.problem, _PAGE)
        yield from _of_counters(subject, dated.state)
        yield from _of_version(subject, dated.state)
    yield from _of_authorizers(watched)
    if len(watched) == len(brokers) and not any(each.problem for each in watched):
        yield ok("plugins", f"brokers that are watched: {len(watched)}")


def require_no_plugin(states: Mapping[int, DatedState], now_ms: int) -> None:
    """Raise RemovalError if a plugin runs, which would make its topics again."""
    running = [number for number, each in states.items() if not _silence(each, now_ms)]
    if running:
        named = ", ".join(map(str, sorted(running)))
        msg = f"the plugin of broker {named} runs, and would make its topics again: {UNDO}"
        raise RemovalError(msg)


def _silence(dated: DatedState | None, now_ms: int) -> str:
    """Return why a plugin does not watch its broker, or an empty text."""
    if dated is None:
        return "its plugin has not reported"
    if isinstance(dated.state, StopReport) and not dated.state.shutdown:
        return "somebody unloaded its plugin"
    silent_s = (now_ms - dated.appended_ms) // 1000
    if isinstance(dated.state, StopReport):
        return f"its plugin has not reported since the broker stopped, {silent_s} s ago"
    return f"its plugin last reported {silent_s} s ago" if silent_s > MAX_SILENCE_MS // 1000 else ""


def _of_counters(subject: str, state: PluginState) -> Iterator[Finding]:
    if state.dropped_events:
        text = f"{state.dropped_events:,} events were lost since its start: their PIDs are charged later or never"
        yield warning(subject, text, f"pid.quota.memory.bytes, and the brokers' load ({_PAGE})")
    if state.waiting_pids > MAX_WAITING_PIDS:
        text = f"{state.waiting_pids:,} PIDs wait for their event to be delivered"
        yield warning(subject, text, f"look at the leaders of produce-events ({_PAGE})")


def _of_version(subject: str, state: PluginState) -> Iterator[Finding]:
    ours, theirs = metadata.version("pid-quota"), state.plugin_version
    if theirs != ours:
        text = f"its plugin is of version {theirs}, and pid-quota here of {ours}"
        remedy = (
            f"pid-quota broker-jar FOLDER, and restart broker {state.broker_id}; or install pid-quota {theirs} here"
        )
        yield warning(subject, text, remedy)


def _of_authorizers(states: Collection[PluginState]) -> Iterator[Finding]:
    """Check that all brokers have the plugin's authorizer, without which there are no holds."""
    without = ", ".join(str(each.broker_id) for each in states if not each.has_authorizer)
    remedy = (
        f"authorizer.class.name={HOLD_AUTHORIZER} in server.properties of broker {without}; {HOLD_ANY_AUTHORIZER} "
        "where another authorizer than Kafka's runs, or none (docs/enforcement.md)"
    )
    if without and any(each.has_authorizer for each in states):
        text = f"broker {without} can't hold: new producer ids of a held user pass there"
        yield wrong("authorizer", text, remedy)
    elif without:
        yield warning("authorizer", "no broker can hold, so quotas are only reported", remedy)
    elif states:
        yield ok("authorizer", f"brokers that can hold: {len(states)}")


def check_clocks(states: Iterable[DatedState]) -> Iterator[Finding]:
    """Compare each broker's clock with the clock of the broker that appended its report."""
    skews = {
        each.state.broker_id: each.state.timestamp_ms - each.appended_ms
        for each in states
        # Other reports may wait before they are sent.
        if isinstance(each.state, AliveReport) and not each.state.problem
    }
    for broker_id, skew_ms in sorted(skews.items()):
        if abs(skew_ms) > MAX_CLOCK_SKEW_MS:
            side = "ahead of" if skew_ms > 0 else "behind"
            text = f"{abs(skew_ms) / 1000:.0f} s {side} the clock of the broker that leads the reports"
            yield wrong(f"clock of broker {broker_id}", text, "synchronise both clocks (chronyc makestep)")
    if skews and all(abs(skew_ms) <= MAX_CLOCK_SKEW_MS for skew_ms in skews.values()):
        yield ok("clocks", f"brokers within {MAX_CLOCK_SKEW_MS // 1000} s of each other: {len(skews)}")

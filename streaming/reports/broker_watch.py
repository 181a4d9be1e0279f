"""Watches which brokers have a plugin that works, from the states that the plugins report."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from streaming.errors import WindowTooShortError
from wire.plugin_reports import PluginState, StopReport

SILENT_MS = 30_000
"""A plugin that reports nothing for this long does not run. Plugins report every 10 s."""
FRESH_MS = 600_000
"""Settings in reports that are older may have changed since."""
MIN_REPEATS = 10
"""Minimum number of repeat intervals in a quota's window. A PID is remembered up to an interval less than a window."""

Row = dict[str, Any]

_log = logging.getLogger(__name__)


class Dated(NamedTuple):
    """A plugin's state, and the time (ms) at which a broker appended its report."""

    state: PluginState
    appended_ms: int


class BrokerWatch:
    """Remembers each plugin's newest state, and logs what administrators should know. Not thread-safe."""

    def __init__(self, window_ms: int) -> None:
        """Create the watch of a stream whose quotas refer to a window."""
        self._window_ms = window_ms
        self._newest: dict[int, Dated] = {}
        self._since_ms: int | None = None
        self._reasons: dict[int, str] = {}
        self._other_windows: set[int] = set()

    def see(self, states: Sequence[Dated]) -> list[Row]:
        """Take a batch's states in order, and return rows of `broker_status`. Log brokers that are not seen any more.

        Times in the rows are milliseconds.
        """
        if not states:
            return []
        reported = {each.state.broker_id: each for each in states}
        if self._since_ms is None:
            self._since_ms = min(each.appended_ms for each in states)
        self._newest |= reported
        rows = [status_row(each.state) for each in reported.values()]
        rows += self._unreported(reported)
        self._log_unseen(rows)
        return rows

    def next_producer_id(self) -> int | None:
        """Return the highest next producer id of the newest states; None if unknown."""
        known = (each.state.next_producer_id for each in self._newest.values())
        return max((each for each in known if each is not None), default=None)

    def check_settings(self, now_ms: int) -> None:
        """Log plugins whose window is not the stream's, once per window.

        Raises:
            WindowTooShortError: If the stream's window is too short for a plugin's repeat interval.
        """
        fresh = [each.state for each in self._newest.values() if each.appended_ms > now_ms - FRESH_MS]
        for state in fresh:
            if state.window_ms not in {self._window_ms, *self._other_windows}:
                self._other_windows.add(state.window_ms)
                _log.warning(
                    "the plugin of broker %d has a window of %d s, but this stream's window is %d s: "
                    "set pid.quota.window.ms=%d on the brokers",
                    *(state.broker_id, state.window_ms // 1000, self._window_ms // 1000, self._window_ms),
                )
        require_long_window(fresh, self._window_ms)

    def _unreported(self, reported: Mapping[int, Dated]) -> Iterator[Row]:
        """Yield a row for each broker of the cluster whose plugin does not report."""
        now_ms = max(each.appended_ms for each in reported.values())
        seen = sorted(
            (each.state.timestamp_ms, broker_id)
            for each in reported.values()
            for broker_id in each.state.cluster_brokers
        )
        for broker_id, seen_ms in {broker_id: seen_ms for seen_ms, broker_id in seen}.items():
            known = self._newest.get(broker_id)
            # A broker without a report so far may report every moment.
            heard_ms = known.appended_ms if known else self._since_ms or now_ms
            if now_ms - heard_ms >= SILENT_MS:
                yield {"broker_id": broker_id, "seen_at": seen_ms}

    def _log_unseen(self, rows: Iterable[Row]) -> None:
        for row in rows:
            broker_id, reason = row["broker_id"], _why_unseen(row)
            if reason and self._reasons.get(broker_id) != reason:
                _log.warning(
                    "no plugin sees broker %d, so nobody is throttled for new producer ids there: %s "
                    "(see `pid-quota doctor`)",
                    *(broker_id, reason),
                )
                self._reasons[broker_id] = reason
            elif not reason and self._reasons.pop(broker_id, ""):
                _log.warning("a plugin sees broker %d again", broker_id)


def status_row(state: PluginState) -> Row:
    """Return a state as a row of `broker_status`, with times in milliseconds, and with fields that are no columns."""
    times = dict.fromkeys(("seen_at", "reported_at"), state.timestamp_ms)
    return msgspec.structs.asdict(state) | times | {"stopped": isinstance(state, StopReport)}


def require_long_window(states: Iterable[PluginState], window_ms: int) -> None:
    """Check that a window has enough repeat intervals of each plugin.

    Raises:
        WindowTooShortError: If it does not.
    """
    slowest = max(states, key=lambda state: state.repeat_ms, default=None)
    if slowest is not None and window_ms < MIN_REPEATS * slowest.repeat_ms:
        msg = (
            f"the window is {window_ms / 1000:g} s, but the plugin of broker {slowest.broker_id} repeats a producer id "
            f"every {slowest.repeat_ms / 1000:g} s: a window needs at least {MIN_REPEATS} repeats. Raise "
            f"--window-seconds with a new checkpoint, or set pid.quota.repeat.ms={max(1, window_ms // MIN_REPEATS)} "
            f"or less on the brokers"
        )
        raise WindowTooShortError(msg)


def _why_unseen(row: Row) -> str:
    if row.get("reported_at") is None:
        return "no plugin of it reports"
    if row["stopped"]:
        return "its plugin stopped"
    return str(row["problem"] or "")

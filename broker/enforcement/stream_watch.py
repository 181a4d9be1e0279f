"""Alerts on a stalled stream, and on clock skew between this host and the brokers."""

from collections.abc import Callable

from broker.enforcement.clock import MAX_SKEW_MS

MAX_SILENCE_MS = 300_000
"""The enforcer alerts if the stream writes nothing for longer."""

_EVERY_MS = 5_000


class StreamWatch:
    """A check that alerts when a problem begins and when it ends."""

    def __init__(
        self,
        newest_write_ms: Callable[[], int],
        skew_ms: Callable[[], int],
        alert: Callable[[str], None],
    ) -> None:
        self._newest_write_ms = newest_write_ms
        self._skew_ms, self._alert = skew_ms, alert
        self._next_ms = 0
        self._is_wrong = {"stream": False, "clock": False}

    def check(self, now_ms: int) -> None:
        """Check stream and clock, at most every 5 s."""
        if self._next_ms - _EVERY_MS <= now_ms < self._next_ms:
            return
        self._next_ms = now_ms + _EVERY_MS
        silent_ms = now_ms - self._newest_write_ms()
        begins = (
            f"the stream has written nothing for {silent_ms // 1000} s (limit {MAX_SILENCE_MS // 1000} s): "
            "check that it runs. Leases end on time, and no new ones are taken"
        )
        self._compare("stream", silent_ms > MAX_SILENCE_MS, begins, "the stream writes again")
        skew_ms = self._skew_ms()
        begins = (
            f"the brokers' clock is {skew_ms / 1000:+.1f} s off this host's (limit {MAX_SKEW_MS // 1000} s): "
            "leases follow the brokers' clock. Synchronise both by NTP"
        )
        self._compare("clock", abs(skew_ms) > MAX_SKEW_MS, begins, "the brokers' clock agrees with this host's again")

    def _compare(self, what: str, is_wrong: bool, begins: str, ends: str) -> None:
        if is_wrong != self._is_wrong[what]:
            self._alert(begins if is_wrong else ends)
        self._is_wrong[what] = is_wrong

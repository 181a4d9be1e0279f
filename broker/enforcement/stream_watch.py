"""Alerts on a stalled stream and on clock skew between this host and the brokers."""

from collections.abc import Callable

from broker.enforcement.clock import MAX_SKEW_MS

_EVERY_MS = 5_000


class StreamWatch:
    """Checks every few seconds; alerts once when a problem begins and once when it ends.

    A stream with traffic writes every `metrics_interval`; `silence_ms` bounds its pauses.
    """

    def __init__(
        self,
        newest_write_ms: Callable[[], int],
        skew_ms: Callable[[], int],
        alert: Callable[[str], None],
        *,
        silence_ms: int,
    ) -> None:
        self._newest_write_ms = newest_write_ms
        self._skew_ms, self._alert, self._silence_ms = skew_ms, alert, silence_ms
        self._next_ms = 0
        self._is_silent = self._is_skewed = False

    def check(self, now_ms: int) -> None:
        """Check if the last check is 5 s old."""
        if self._next_ms - _EVERY_MS <= now_ms < self._next_ms:
            return
        self._next_ms = now_ms + _EVERY_MS
        self._check_stream(now_ms)
        self._check_clock()

    def _check_stream(self, now_ms: int) -> None:
        silent_ms = now_ms - self._newest_write_ms()
        if silent_ms > self._silence_ms and not self._is_silent:
            self._alert(
                f"the stream has written nothing for {silent_ms // 1000} s (limit {self._silence_ms // 1000} s): "
                "check that it runs. Leases end on time, and no new ones are taken"
            )
        elif silent_ms <= self._silence_ms and self._is_silent:
            self._alert("the stream writes again")
        self._is_silent = silent_ms > self._silence_ms

    def _check_clock(self) -> None:
        skew_ms = self._skew_ms()
        is_skewed = abs(skew_ms) > MAX_SKEW_MS
        if is_skewed and not self._is_skewed:
            self._alert(
                f"the brokers' clock is {skew_ms / 1000:+.1f} s off this host's (limit {MAX_SKEW_MS // 1000} s): "
                "leases follow the brokers' clock. Synchronise both by NTP"
            )
        elif self._is_skewed and not is_skewed:
            self._alert("the brokers' clock agrees with this host's again")
        self._is_skewed = is_skewed

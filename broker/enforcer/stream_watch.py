"""What the enforcer warns of: a stream that writes nothing any more, and clocks that disagree."""

from collections.abc import Callable

MAX_SKEW_MS = 5_000

_EVERY_MS = 5_000


class StreamWatch:
    """Looks now and then; each trouble is told once, when it begins.

    Args:
        newest_write_ms: Tells when the stream last wrote to its tables, in milliseconds since the epoch.
        skew_ms: By how much the brokers' clock is ahead, if that is known.
        alert: Takes a warning.
        silence_ms: So long the stream may write nothing. It writes with each `metrics_interval`, if there is
            traffic at all.
    """

    def __init__(
        self,
        newest_write_ms: Callable[[], int],
        skew_ms: Callable[[], int | None],
        alert: Callable[[str], None],
        *,
        silence_ms: int,
    ) -> None:
        self._newest_write_ms = newest_write_ms
        self._skew_ms, self._alert, self._silence_ms = skew_ms, alert, silence_ms
        self._next_ms = 0
        self._is_silent = self._is_skewed = False

    def check(self, now_ms: int) -> None:
        """Look, if it is time to.

        Raises:
            TableError: If a table can't be read.
        """
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
                "does it run? Leases end in their time and no new ones come"
            )
        elif silent_ms <= self._silence_ms and self._is_silent:
            self._alert("the stream writes again")
        self._is_silent = silent_ms > self._silence_ms

    def _check_clock(self) -> None:
        skew_ms = self._skew_ms()
        is_skewed = skew_ms is not None and abs(skew_ms) > MAX_SKEW_MS
        if is_skewed and not self._is_skewed:
            self._alert(
                f"the broker's clock is {(skew_ms or 0) / 1000:+.1f} s off ours (limit {MAX_SKEW_MS // 1000} s): "
                "leases end by our clock. Set both by NTP"
            )
        elif self._is_skewed and not is_skewed:
            self._alert("the broker's clock agrees with ours again")
        self._is_skewed = is_skewed

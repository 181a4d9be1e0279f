"""Kafka's sampled rate (`org.apache.kafka.common.metrics.stats.Rate` over a `WindowedSum`)."""

import msgspec

from quota.config import QuotaConfig


class Sample(msgspec.Struct, array_like=True, gc=False):
    """The PIDs recorded in the window that begins at `start_ms`."""

    start_ms: int
    last_event_ms: int
    value: int


class SampledRate(msgspec.Struct, array_like=True):
    """The KIP's `rate` metric of one principal, in PIDs per window.

    As in Kafka, the rate is an average over all samples (10 to 11 windows by default), so it reacts slowly. The metric
    `new_pids_window` shows recent PIDs.

    Attributes:
        samples: At most `window_num + 1` samples, oldest first, as in Kafka's `SampledStat`.

    Examples:
        >>> rate = SampledRate()
        >>> rate.record(110, QuotaConfig(), 0)
        >>> rate.measure(QuotaConfig(), 0)
        11.0
    """

    samples: list[Sample] = msgspec.field(default_factory=list)

    def record(self, count: int, config: QuotaConfig, now_ms: int) -> None:
        """Add PIDs to the newest sample. If the sample is a window old, begin a new sample."""
        if not self.samples or now_ms - self.samples[-1].start_ms >= config.window_ms:
            self.samples.append(Sample(now_ms, now_ms, 0))
            del self.samples[: -(config.window_num + 1)]
        newest = self.samples[-1]
        newest.value += count
        newest.last_event_ms = now_ms

    def expires_ms(self, config: QuotaConfig) -> int:
        """Return when the rate falls to 0 if no more PIDs come, in ms since the epoch."""
        return self.samples[-1].last_event_ms + config.window_num * config.window_ms if self.samples else 0

    def measure(self, config: QuotaConfig, now_ms: int) -> float:
        """Return the rate in PIDs per window."""
        window_num, window_ms = config.window_num, config.window_ms
        oldest: Sample | None = None
        value = 0
        for sample in self.samples:
            if now_ms - sample.last_event_ms < window_num * window_ms:
                oldest = oldest or sample
                value += sample.value
        if oldest is None:
            return 0.0
        elapsed_ms = now_ms - oldest.start_ms
        # Kafka divides by at least `window_num - 1` windows, even if fewer have elapsed.
        missing = window_num - 1 - _quotient(elapsed_ms, window_ms)
        if missing > 0:
            elapsed_ms += missing * window_ms
        return value * window_ms / max(1, elapsed_ms)


def _quotient(dividend: int, divisor: int) -> int:
    """Divide, and round towards zero, as Java does."""
    return dividend // divisor if dividend >= 0 else -(-dividend // divisor)

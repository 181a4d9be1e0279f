"""Settings of the quota rules, and their names in KIP-936."""

from dataclasses import dataclass
from functools import cached_property

from quota.errors import InvalidConfigError

TICKS_PER_QUANTUM = 90
"""Tokens refill once per tick. By default, a tick lasts 10 s."""


@dataclass(frozen=True, kw_only=True)
class QuotaConfig:
    """Settings that all principals of a deployment share.

    Attributes:
        window_seconds: Time that a quota's rate refers to (`producer.id.quota.window.size.seconds`).
        window_num: Number of samples of the `rate` metric; a sample is a window long (`producer.id.quota.window.num`).
        layer_count: Layers per window (`producer.id.quota.cache.layer.count`).
        false_positive_rate: Share of new PIDs that all layers together mistake for known PIDs
            (`producer.id.quota.cache.false.positive.rate`).
        burst_windows: Tokens of a full bucket, as a multiple of the rate. In Kafka, the factor is `window_num`.
        min_throttle_seconds: Minimum duration of a throttle. If PIDs are still refused after this time, a decision
            extends the throttle. A decision that doubles the duration may come sooner.
        max_throttle_seconds: Maximum time until an exhausted bucket recovers. Refused PIDs take tokens, too, until the
            recovery takes this long. None means the window, or `min_throttle_seconds` if that is longer.
        late_grace_seconds: An event is late if it is older than the ledger's clock by more than this. A late event's
            PID takes no token.
        metrics_interval_seconds: A principal whose ledger changes gets a metrics row at least this often.
        max_uncharged_bytes: Maximum filter size for PIDs that take no token, unless the quota needs more. Further PIDs
            are counted but not stored. The default holds 100,000 PIDs in constant use.

    Raises:
        InvalidConfigError: If a value is out of range, or if a quantum (window / `layer_count`) is not a whole number
            of milliseconds or is shorter than 90 ms.

    Examples:
        >>> QuotaConfig(window_seconds=3600).quantum_ms
        900000
    """

    window_seconds: int = 3600
    window_num: int = 11
    layer_count: int = 4
    false_positive_rate: float = 1e-4
    burst_windows: float = 1.0
    min_throttle_seconds: float = 60.0
    max_throttle_seconds: float | None = None
    late_grace_seconds: float = 300.0
    metrics_interval_seconds: float = 60.0
    max_uncharged_bytes: int = 2 * 1024 * 1024

    def __post_init__(self) -> None:
        _require("window_seconds", self.window_seconds, self.window_seconds >= 1, "at least 1")
        _require("window_num", self.window_num, self.window_num >= 1, "at least 1")
        _require("layer_count", self.layer_count, 1 <= self.layer_count <= 64, "between 1 and 64")
        _require("false_positive_rate", self.false_positive_rate, 0 < self.false_positive_rate < 1, "between 0 and 1")
        _require("burst_windows", self.burst_windows, 0 < self.burst_windows <= 1000, "above 0 and at most 1000")
        _require("min_throttle_seconds", self.min_throttle_seconds, self.min_throttle_seconds >= 0, "at least 0")
        self._check_max_throttle()
        _require("late_grace_seconds", self.late_grace_seconds, self.late_grace_seconds >= 0, "at least 0")
        interval = self.metrics_interval_seconds
        _require("metrics_interval_seconds", interval, interval >= 0, "at least 0")
        _require("max_uncharged_bytes", self.max_uncharged_bytes, self.max_uncharged_bytes >= 1024, "at least 1024")
        if self.window_ms % self.layer_count or self.quantum_ms < TICKS_PER_QUANTUM:
            msg = (
                f"window_seconds={self.window_seconds} can't be cut into layer_count={self.layer_count} whole quanta "
                f"of at least {TICKS_PER_QUANTUM} ms: choose a layer count that divides the window"
            )
            raise InvalidConfigError(msg)

    @cached_property
    def window_ms(self) -> int:
        """Length of the window in milliseconds."""
        return self.window_seconds * 1000

    @cached_property
    def quantum_ms(self) -> int:
        """Length of a quantum in milliseconds."""
        return self.window_ms // self.layer_count

    @cached_property
    def min_throttle_ms(self) -> int:
        """`min_throttle_seconds` in milliseconds."""
        return round(self.min_throttle_seconds * 1000)

    @cached_property
    def max_throttle_ms(self) -> int:
        """`max_throttle_seconds` in milliseconds."""
        if self.max_throttle_seconds is None:
            return max(self.window_ms, self.min_throttle_ms)
        return round(self.max_throttle_seconds * 1000)

    def _check_max_throttle(self) -> None:
        given, least, most = self.max_throttle_seconds, self.min_throttle_seconds, 1000 * self.window_seconds
        if given is not None and not least <= given <= most:
            msg = (
                f"max_throttle_seconds={given} is out of range: it must be at least min_throttle_seconds={least} and "
                f"at most 1000 windows ({most}); without it, the maximum is window_seconds={self.window_seconds}"
            )
            raise InvalidConfigError(msg)


def _require(name: str, value: float, holds: bool, allowed: str) -> None:
    if not holds:
        msg = f"{name}={value} is out of range: it must be {allowed}"
        raise InvalidConfigError(msg)

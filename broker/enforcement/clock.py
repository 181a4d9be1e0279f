"""The brokers' time, and deadlines that no clock change can postpone."""

from collections.abc import Callable, Collection

from broker.enforcement.model import CLOCK_SLACK_MS, MAX_LEASE_MS, Clock

MAX_SKEW_MS = 5_000
"""The enforcer alerts on a larger clock skew."""


class BrokersTime:
    """The last measured time of the brokers, advanced by a monotonic clock.

    Before the first measurement, this host's time is used.
    """

    def __init__(self, wall_ms: Clock, steady_ms: Clock) -> None:
        self._wall_ms, self._steady_ms = wall_ms, steady_ms
        self._ahead_ms = wall_ms() - steady_ms()

    def measured(self, sent_ms: int, broker_ms: int, received_ms: int) -> None:
        """Record that a broker's clock showed `broker_ms` at a time between `sent_ms` and `received_ms` (monotonic)."""
        self._ahead_ms = min(max(self._ahead_ms, broker_ms - received_ms), broker_ms - sent_ms)

    def now_ms(self) -> int:
        """Return the brokers' time, in ms since the epoch."""
        return self._ahead_ms + self._steady_ms()

    def skew_ms(self) -> int:
        """Return the brokers' time minus this host's time, in ms."""
        return self.now_ms() - self._wall_ms()


class ClockSteps:
    """Finds out when the brokers' clock was set back.

    Examples:
        >>> times_ms = iter([(50_000, 0), (60_000, 10_000), (61_000, 20_000)])  # brokers, monotonic
        >>> steps = ClockSteps(lambda: next(times_ms))
        >>> steps.start(seen_ms=90_000), steps.set_back_ms(), steps.set_back_ms()
        (None, 40000, 9000)
    """

    def __init__(self, times_ms: Callable[[], tuple[int, int]]) -> None:
        self._times_ms = times_ms
        self._ahead_ms = 0

    def start(self, seen_ms: int) -> None:
        """Begin with a time that the brokers' clock has shown."""
        self._ahead_ms = seen_ms - self._times_ms()[1]

    def set_back_ms(self) -> int:
        """Return by how much the clock was set back since the last call; 0 if within `CLOCK_SLACK_MS`."""
        now_ms, steady_ms = self._times_ms()
        before_ms, self._ahead_ms = self._ahead_ms, now_ms - steady_ms
        by_ms = before_ms - self._ahead_ms
        return by_ms if by_ms > CLOCK_SLACK_MS else 0


class Deadlines:
    """Ends of decisions by the monotonic clock. No end moves later."""

    def __init__(self, steady_ms: Callable[[], int]) -> None:
        self._steady_ms = steady_ms
        self._ends_ms: dict[str, int] = {}

    def end_ms(self, decision_id: str, until_ms: int, now_ms: int) -> int:
        """Return the end of a decision and its leases, in the brokers' time.

        The end is `until_ms`, or the end by this host's monotonic clock if that is over 5 s earlier. Once the monotonic
        end has passed, the decision has ended.
        """
        steady_ms = self._steady_ms()
        end_ms = steady_ms + min(until_ms - now_ms, MAX_LEASE_MS)
        end_ms = self._ends_ms[decision_id] = min(self._ends_ms.get(decision_id, end_ms), end_ms)
        if end_ms <= steady_ms:
            return min(until_ms, now_ms)
        # The clocks are not read at the same instant, so only a large difference means that someone set a clock.
        by_steady_ms = now_ms + end_ms - steady_ms
        return by_steady_ms if by_steady_ms < until_ms - MAX_SKEW_MS else until_ms

    def retain(self, decision_ids: Collection[str]) -> None:
        """Forget the ends of all other decisions."""
        self._ends_ms = {name: end_ms for name, end_ms in self._ends_ms.items() if name in decision_ids}

"""The enforcer's control loop."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from broker.enforcement.metrics import EnforcerMetrics
from broker.enforcement.model import Clocks
from broker.enforcement.notices import Notice
from broker.enforcement.reconcile import Enforcer
from broker.enforcement.stream_watch import StreamWatch
from broker.errors import BrokerError, EnforceError, LeaseStoreError
from tables.errors import TableError

_STOP_TRIES = 5
_STOP_PAUSE_S = 1.0
_MAX_PAUSE_S = 5.0
_NEWS_CHECK_S = 0.02
_ENDS_CHECK_S = 0.2
"""Interval at which due leases are ended, even if the tables are read less often."""


@dataclass(frozen=True)
class Loop:
    """A control loop. `poll_seconds` is the normal pause between reads of the tables."""

    enforcer: Enforcer
    watch: StreamWatch
    metrics: EnforcerMetrics
    clocks: Clocks
    notify: Callable[[Notice], None]
    poll_seconds: float

    def run(self, stop: threading.Event) -> None:
        """Reconcile until `stop` is set or an error ends the loop. Then end every lease.

        After an error of the tables or the lease topic, the loop retries, with longer pauses. Raises EnforceError if
        leases could not be ended.
        """
        try:
            self._reconcile_until(stop)
        except BaseException as error:
            self._end_all(f" after {type(error).__name__}: {error}")
            raise
        self._end_all()

    def _reconcile_until(self, stop: threading.Event) -> None:
        pause_s, has_failed = self.poll_seconds, False
        next_s = time.monotonic() + pause_s
        while True:
            has_news = self._pause(stop, next_s)
            if stop.is_set():
                return
            try:
                if time.monotonic() < next_s and (has_failed or not has_news):
                    self.enforcer.end_due()
                    continue
                self.enforcer.reconcile()
                self.metrics.reconciled(self.enforcer.leases.values(), is_active=self.enforcer.is_active)
                self.watch.check(self.clocks.now_ms())
                has_failed, pause_s = False, self.poll_seconds
                next_s = time.monotonic() + pause_s
            except (TableError, LeaseStoreError) as error:
                has_failed, pause_s = True, min(2 * pause_s, max(_MAX_PAUSE_S, self.poll_seconds))
                next_s = time.monotonic() + pause_s
                self.notify(Notice(self.clocks.now_ms(), "trying again", f"in {pause_s:g} s: {error}"))

    def _pause(self, stop: threading.Event, next_s: float) -> bool:
        """Pause until the next check is due. Return whether there may be new decisions."""
        end_s = min(max(next_s, time.monotonic() + _NEWS_CHECK_S), time.monotonic() + _ENDS_CHECK_S)
        while (left_s := end_s - time.monotonic()) > 0 and not stop.wait(min(left_s, _NEWS_CHECK_S)):
            if self.enforcer.has_news():
                return True
        return False

    def _end_all(self, cause: str = "") -> None:
        left, reason = [], ""
        for _ in range(_STOP_TRIES):
            try:
                left = self.enforcer.end_all("the enforcer is stopped")
            except BrokerError as error:
                left, reason = list(self.enforcer.leases.values()), f" ({error})"
            if not left:
                return
            time.sleep(_STOP_PAUSE_S)
        targets = ", ".join(str(lease.target) for lease in left)
        msg = f"not ended{cause}: {targets}{reason}. Once Kafka answers, start again or use --release-all"
        raise EnforceError(msg)

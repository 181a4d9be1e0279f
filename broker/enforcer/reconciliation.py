"""The enforcer's control loop: reconciles until it is stopped, then restores every quota."""

import threading
import time
from collections.abc import Callable

from broker.enforcer.enforcer import Enforcer
from broker.enforcer.enforcer_metrics import EnforcerMetrics
from broker.enforcer.notices import Notice
from broker.enforcer.ports import Clocks
from broker.enforcer.stream_watch import StreamWatch
from broker.errors import BrokerError, EnforceError, LeaseStoreError
from tables.errors import TableError

_STOP_TRIES = 5
_LONGEST_PAUSE_S = 5.0
_GLANCE_S = 0.02


def now_ms() -> int:
    """Return the time, in milliseconds since the epoch."""
    return round(time.time() * 1000)


CLOCKS = Clocks(now_ms, lambda: time.monotonic_ns() // 1_000_000)


def run(
    enforcer: Enforcer,
    watch: StreamWatch,
    stop: threading.Event,
    poll_seconds: float,
    notify: Callable[[Notice], None],
    metrics: EnforcerMetrics,
) -> None:
    """Reconcile until `stop` is set; then restore every quota, since nobody is left to end the leases.

    Backs off while tables can't be read or written; leases still end on time.

    Raises:
        EnforceError: If quotas could not be restored at the end.
        BrokerError: If Kafka refuses us the lock.
        Exception: Any other error, after the quotas have been restored.
    """
    try:
        _reconcile_until(enforcer, watch, stop, poll_seconds, notify, metrics)
    except BaseException as error:
        _restore_all(enforcer, poll_seconds, f" after {type(error).__name__}: {error}")
        raise
    _restore_all(enforcer, poll_seconds)


def _reconcile_until(
    enforcer: Enforcer,
    watch: StreamWatch,
    stop: threading.Event,
    poll_seconds: float,
    notify: Callable[[Notice], None],
    metrics: EnforcerMetrics,
) -> None:
    pause_s, next_s = poll_seconds, time.monotonic()
    while not _pause(enforcer, stop, poll_seconds):
        try:
            if time.monotonic() < next_s:
                enforcer.end_due()
                continue
            enforcer.reconcile()
            metrics.reconciled(enforcer.leases.values(), is_active=enforcer.is_active)
            watch.check(now_ms())
            pause_s = poll_seconds
        except (TableError, LeaseStoreError) as error:
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            next_s = time.monotonic() + pause_s
            notify(Notice(now_ms(), "trying again", f"in {pause_s:g} s: {error}"))


def _pause(enforcer: Enforcer, stop: threading.Event, seconds: float) -> bool:
    """Wait, but not if a decision has been written meanwhile; return whether `stop` is set."""
    end_s = time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0:
        if stop.wait(min(left_s, _GLANCE_S)) or enforcer.has_news():
            break
    return stop.is_set()


def _restore_all(enforcer: Enforcer, pause_s: float, trouble: str = "") -> None:
    left, reason = [], ""
    for _ in range(_STOP_TRIES):
        try:
            left = enforcer.end_all("the enforcer is stopped")
        except BrokerError as error:
            left, reason = list(enforcer.leases.values()), f" ({error})"
        if not left:
            return
        time.sleep(pause_s)
    entities = ", ".join(str(lease.entity) for lease in left)
    msg = f"quotas not restored{trouble}: {entities}{reason}. Once Kafka answers, start again or use --release-all"
    raise EnforceError(msg)

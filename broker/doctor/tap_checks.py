"""Checks of the taps."""

from collections.abc import Iterable, Iterator

from broker.doctor.findings import Finding, ok, warning, wrong
from broker.tap.tap_status import DatedHeartbeat, WatchedBroker

MAX_CLOCK_SKEW_MS = 5_000
_MAX_LAG_BYTES = 64 * 1024 * 1024
"""Maximum lag: the default size of a file that the class writes."""
_MAX_LAG_RECORDS = 1_000_000


def check_taps(watches: Iterable[WatchedBroker]) -> Iterator[Finding]:
    """Check that taps watch all brokers that are up, and check what the taps report."""
    blind = False
    watched = 0
    for watch in watches:
        subject = f"tap, broker {watch.broker_id}"
        if watch.is_blind_spot:
            blind = True
            yield wrong(subject, f"not watched: {watch.watch.value}", "start `pid-quota tap` on its host (docs/tap.md)")
        elif watch.alive:
            watched += 1
        for remark in watch.remarks():
            yield warning(subject, remark, "pid-quota tap status")
        known = watch.heartbeat
        if known is not None and watch.alive and not watch.is_blind_spot:
            behind = (known.behind_bytes or 0) > _MAX_LAG_BYTES or (known.lag_records or 0) > _MAX_LAG_RECORDS
            if behind:
                unread = f"{known.lag_records} records" if known.lag_records else f"{known.behind_bytes} bytes"
                yield wrong(subject, f"the tap is {unread} behind", "look at the CPU of the tap and its broker")
    if not blind:
        yield ok("taps", f"brokers that are watched: {watched}")


def check_clocks(heartbeats: Iterable[DatedHeartbeat]) -> Iterator[Finding]:
    """Compare the clock of each tap's host with the brokers' clock."""
    skews = {each.heartbeat.host: each.heartbeat.timestamp_ms - each.appended_ms for each in heartbeats}
    for host, skew_ms in skews.items():
        if abs(skew_ms) > MAX_CLOCK_SKEW_MS:
            side = "ahead of" if skew_ms > 0 else "behind"
            text = f"{abs(skew_ms) / 1000:.0f} s {side} the brokers' clock"
            yield wrong(f"clock of {host}", text, f"synchronise the clock of {host} (chronyc makestep)")
    if skews and all(abs(skew_ms) <= MAX_CLOCK_SKEW_MS for skew_ms in skews.values()):
        yield ok("clocks", f"within {MAX_CLOCK_SKEW_MS // 1000} s of the brokers; hosts of taps: {len(skews)}")

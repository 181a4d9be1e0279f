"""Checks the values of parsed events."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quota.principals import MAX_PRINCIPAL_BYTES
from streaming.decode.exploded import Exploded, column

MAX_INT64 = 2**63 - 1
MAX_CLOCK_SKEW_MS = 300_000
"""An event may be at most this far ahead of its record's Kafka timestamp, and of the driver's clock."""
_PRINCIPAL = r"\A(unknown|[^:]+:(?s:.+))\z"


def bad_events(events: Exploded, begin_ms: int | None) -> tuple[np.ndarray, dict[int, str]]:
    """Return a mask of the events that break the contract, and the reasons by row of `events.records`.

    `begin_ms` is the driver's time when the batch began.
    """
    checks = _checks(events, MAX_INT64 if begin_ms is None else begin_ms)
    found: np.ndarray = np.any([failed for failed, _ in checks] or [np.zeros(len(events), bool)], axis=0)
    if not found.any():
        return found, {}
    # If an event fails several checks, the first check counts.
    why = np.select([failed for failed, _ in checks], np.arange(len(checks)), -1)
    record, by_record = events.record(), {}
    for row in np.unique(record[found]).tolist():
        begin, end = np.searchsorted(record, [row, row + 1]).tolist()
        by_record[row] = _reason(why[begin:end], [reason for _, reason in checks])
    return found, by_record


def _reason(why: np.ndarray, reasons: list[str]) -> str:
    """Return why a record is bad. `why` has each event's index into `reasons`, or -1 if the event is good."""
    counts = Counter(each for each in why.tolist() if each >= 0)
    return "; ".join(
        reasons[check] if count == len(why) else f"{count} of {len(why)} events: {reasons[check]}"
        for check, count in sorted(counts.items())
    )


def _checks(events: Exploded, clock_ms: int) -> list[tuple[np.ndarray, str]]:
    """Return a mask of bad events and a reason for each failed check."""
    times, pids = events.timestamps_ms, events.producer_ids
    if not len(events):
        return []
    checks = []
    if times.min() < 0:
        checks.append((times < 0, "timestamp_ms is negative"))
    if pids.min() < -1:
        checks.append((pids < -1, "producer_id is below -1"))
    for failed, reason in _principals(column(events.records, "principal")):
        checks.append((np.repeat(failed, events.counts), reason))
    # The difference may wrap around for a negative time. Such an event has already failed.
    earliest, newest = times - MAX_CLOCK_SKEW_MS, int(times.max()) - MAX_CLOCK_SKEW_MS
    record_ms = column(events.records, "record_ms").to_numpy()
    if newest > record_ms.min():
        checks.append((earliest > np.repeat(record_ms, events.counts), "timestamp_ms is in the future"))
    if newest > clock_ms:
        checks.append((earliest > clock_ms, "timestamp_ms is ahead of the stream's clock"))
    return checks


def _principals(encoded: pa.DictionaryArray) -> list[tuple[np.ndarray, str]]:
    """Return masks of records with an invalid principal, and the reasons."""
    names = encoded.dictionary
    checks = [
        (pc.invert(pc.match_substring_regex(names, _PRINCIPAL)), "principal is not Type:name"),
        (
            pc.greater(pc.binary_length(names), MAX_PRINCIPAL_BYTES),
            f"principal is longer than {MAX_PRINCIPAL_BYTES} bytes",
        ),
    ]
    return [
        (failed.to_numpy(zero_copy_only=False)[encoded.indices.to_numpy()], reason)
        for failed, reason in checks
        if failed.true_count
    ]

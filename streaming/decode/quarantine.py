"""Samples bad records: keeps a thousand per partition and batch, then every thousandth, and counts the others."""

from collections import Counter, defaultdict

from wire.packed_events import Quarantined

MAX_ROWS = 1000
"""Number of bad records of a partition and batch before sampling starts."""
SAMPLE_EVERY = 1000
"""After `MAX_ROWS` records, one in this many is kept."""
MAX_REASONS = 8
_REASON_CHARS = 80


class Sampler:
    """Samples the bad records of one task, which may read several partitions. Not thread-safe.

    Examples:
        >>> bad = [Quarantined(b"x", "no good", "events", 0, offset, 0) for offset in range(3500)]
        >>> sampler = Sampler()
        >>> [record.offset for record in sampler.sample(bad)][-3:]
        [1000, 2000, 3000]
        >>> sampler.left_out()[0].reason.split(":")[0]
        '2497 more bad records of this partition and batch are left out, offsets 1001 to 3499'
    """

    def __init__(self) -> None:
        self._of: defaultdict[int, _Partition] = defaultdict(_Partition)

    def sample(self, records: list[Quarantined]) -> list[Quarantined]:
        """Return the records to keep."""
        return [record for record in records if self._of[record.partition].keeps(record)]

    def left_out(self) -> list[Quarantined]:
        """Return, for each partition, a record with the number of dropped records by reason."""
        return [each for partition in self._of.values() for each in partition.left_out()]


class _Partition:
    def __init__(self) -> None:
        self._seen = 0
        self._left_out: Counter[str] = Counter()
        self._first: Quarantined | None = None
        self._last_offset = -1

    def keeps(self, record: Quarantined) -> bool:
        """Return whether to keep a record. Count a record that is not kept."""
        beyond = self._seen - MAX_ROWS
        self._seen += 1
        is_kept = beyond < 0 or beyond % SAMPLE_EVERY == 0
        if not is_kept:
            self._leave_out(record)
        return is_kept

    def left_out(self) -> list[Quarantined]:
        if self._first is None:
            return []
        first, total = self._first, self._left_out.total()
        reasons = [f"{count} {reason}" for reason, count in self._left_out.most_common(MAX_REASONS)]
        others = total - sum(count for _, count in self._left_out.most_common(MAX_REASONS))
        if others:
            reasons.append(f"{others} others")
        reason = (
            f"{total} more bad records of this partition and batch are left out, offsets {first.offset} to "
            f"{self._last_offset}: {'; '.join(reasons)}"
        )
        return [first._replace(value=b"", reason=reason)]

    def _leave_out(self, record: Quarantined) -> None:
        if self._first is None:
            self._first = record
        self._last_offset = record.offset
        reason = record.reason[:_REASON_CHARS]
        # A parser's reason may quote its input, so limit the number of distinct reasons.
        known = reason in self._left_out or len(self._left_out) < 10 * MAX_REASONS
        self._left_out[reason if known else "of other reasons"] += 1

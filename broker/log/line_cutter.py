"""Splits chunks of a log into records, in linear time. Pure."""

from broker.log.log_lines import CUT

MAX_LINE_BYTES = 8 * 1024 * 1024
"""Our log settings limit a line to 0.5 MB; those for Kafka 3 write whole requests."""

_HEAD_BYTES = 1024


class LineCutter:
    """Buffers an incomplete record; of an oversized one only the beginning."""

    def __init__(self, end: bytes) -> None:
        """Start at the beginning of a record.

        Args:
            end: delimiter of records.
        """
        self.oversized_lines = 0
        self.unfinished_bytes = 0
        """Bytes after the last delimiter."""
        self._end = end
        self._pieces: list[bytes] = []
        self._seam = b""
        self._too_long = False

    def cut(self, chunk: bytes) -> list[bytes]:
        """Return the records that the chunk completes, without delimiters.

        Of an oversized one only the beginning, marked as cut, so that its thread counts as uncertain.
        """
        seam, end = self._seam, self._end
        joined = seam + chunk
        at = joined.find(end)
        if at < 0:
            self._keep(chunk)
            self._seam = joined[1 - len(end) :] if len(end) > 1 else b""
            return []
        behind = at + len(end) - len(seam)
        if self._too_long:
            first = self._pieces[0] + CUT.encode()
        else:
            first = b"".join((*self._pieces, chunk[:behind]))[: -len(end)]
        *lines, rest = chunk[behind:].split(end)
        self._pieces, self._too_long, self.unfinished_bytes = [], False, 0
        self._keep(rest)
        self._seam = rest[1 - len(end) :] if len(end) > 1 else b""
        return [first, *lines]

    def _keep(self, chunk: bytes) -> None:
        self.unfinished_bytes += len(chunk)
        if not self._too_long:
            self._pieces.append(chunk)
        if self.unfinished_bytes > MAX_LINE_BYTES and not self._too_long:
            self._too_long = True
            self.oversized_lines += 1
            self._pieces = [b"".join(self._pieces)[:_HEAD_BYTES]]

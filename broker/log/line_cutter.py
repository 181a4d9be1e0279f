"""Splits chunks of a file into lines, in linear time. Pure."""

from wire.broker_lines import MAX_LINE_BYTES

_HEAD_BYTES = 1024


class LineCutter:
    """Buffers an incomplete line, or the beginning of an oversized one."""

    def __init__(self) -> None:
        self.oversized_lines = 0
        self.unfinished_bytes = 0
        """Bytes after the last line."""
        self._pieces: list[bytes] = []
        self._too_long = False

    def cut(self, chunk: bytes) -> list[bytes]:
        """Return the lines that the chunk completes, without line ends; of an oversized one the beginning."""
        first, *others = chunk.split(b"\n")
        if not others:
            self._keep(chunk)
            return []
        *lines, rest = others
        line = self._pieces[0] if self._too_long else b"".join((*self._pieces, first))
        self._pieces, self._too_long, self.unfinished_bytes = [], False, 0
        self._keep(rest)
        return [line, *lines]

    def _keep(self, chunk: bytes) -> None:
        self.unfinished_bytes += len(chunk)
        if not self._too_long:
            self._pieces.append(chunk)
        if self.unfinished_bytes > MAX_LINE_BYTES and not self._too_long:
            self._too_long = True
            self.oversized_lines += 1
            self._pieces = [b"".join(self._pieces)[:_HEAD_BYTES]]

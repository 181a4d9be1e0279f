"""Follows the numbers of one broker's lines to find missing lines, duplicates and new runs."""

from enum import Enum

import msgspec

from wire.broker_lines import ClassState, Line, StartLine, StopLine

_MAX_GAPS = 16


class Place(Enum):
    """The place of a line among earlier lines."""

    NEXT = "next"
    """No earlier line is missing."""
    AFTER_LOSS = "after loss"
    """Earlier lines are missing, or may be missing."""
    LATE = "late"
    """The line was missing until now."""
    DUPLICATE = "duplicate"


class LineOrder(msgspec.Struct):
    """The last line of a broker that the tap has read. This state is stored with the position.

    Attributes:
        run: Run of the class; empty while unknown.
        next: Number of the next line; 0 while unknown.
        dropped_lines: The class's count of dropped lines in this run; -1 while unknown.
        gaps: First and last missing number of each gap in this run.
    """

    run: str = ""
    next: int = 0
    newest_ms: int = -1
    dropped_lines: int = -1
    is_shut_down: bool = False
    gaps: list[tuple[int, int]] = []

    def follow(self, line: Line) -> Place:
        """Process the next line; return its place."""
        run = line.run if isinstance(line, ClassState) else ""
        if self._is_of_another_run(line, run):
            place = self._begin(line)
        elif self.next in (0, line.number):
            place = Place.NEXT
        elif line.number > self.next:
            self.gaps = [*self.gaps[1 - _MAX_GAPS :], (self.next, line.number - 1)]
            place = Place.AFTER_LOSS
        elif self._is_missing(line.number):
            self._fill(line.number)
            return Place.LATE
        else:
            return Place.DUPLICATE
        self.run = run or self.run
        self.next = line.number + 1
        self.newest_ms = max(self.newest_ms, line.timestamp_ms)
        self.is_shut_down = isinstance(line, StopLine) and line.shutdown
        return place

    def forget(self) -> None:
        """Accept any number next, because lines may be missing."""
        self.run, self.next, self.newest_ms = "", 0, -1
        self.dropped_lines, self.is_shut_down, self.gaps = -1, False, []

    def drops_more(self, state: ClassState) -> bool:
        """Whether the class has dropped lines since its last report."""
        before, self.dropped_lines = self.dropped_lines, state.dropped_lines
        return 0 <= before < state.dropped_lines

    def _is_of_another_run(self, line: Line, run: str) -> bool:
        if self.next == 0:
            return False
        if run and (self.run or isinstance(line, StartLine)):
            return run != self.run
        # The numbers restarted and the line isn't a duplicate, so the first lines of a new run are missing.
        return line.number < self.next and line.timestamp_ms > self.newest_ms and not self._is_missing(line.number)

    def _begin(self, line: Line) -> Place:
        is_whole = isinstance(line, StartLine) and line.number == 1
        continues = is_whole and self.is_shut_down
        self.forget()
        self.dropped_lines = 0
        if not is_whole and line.number > 1:
            self.gaps = [(1, line.number - 1)]
        return Place.NEXT if continues else Place.AFTER_LOSS

    def _is_missing(self, number: int) -> bool:
        return any(first <= number <= last for first, last in self.gaps)

    def _fill(self, number: int) -> None:
        parts = [
            part
            for first, last in self.gaps
            for part in ([(first, number - 1), (number + 1, last)] if first <= number <= last else [(first, last)])
        ]
        self.gaps = [(first, last) for first, last in parts if first <= last]

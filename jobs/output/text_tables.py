"""Tables for people, which never truncate a value.

If the columns don't fit on a line, the table omits columns without values and lists their names below. If the remaining
columns don't fit either, the table takes the first of these forms that fits:

- The last column's text wraps.
- The first columns stay on the line, and the other values follow below with their names.
- Each row is a block of `name value` lines.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from jobs.output.human import NOTHING, human
from jobs.output.terminal import printable

_INDENT = 2
_EMPTY = ("", NOTHING)
_MIN_LEAD = 12
"""Minimum width of the first column. A value wider than the column takes its own line."""
_MIN_PROSE = 24
"""Minimum width to which the last column's text is wrapped."""
_MAX_FOLDED = 6
"""Maximum number of columns below a row's line. With more columns, the row is a block."""


class TextTable:
    """A table that adapts to the console's width.

    A row may lack its last columns. Columns in `right` and columns of numbers are aligned to the right.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        title: str | None = None,
        right: Collection[str] = (),
        gap: int = 2,
    ) -> None:
        values = [[value for value, _ in zip_longest(row, columns)] for row in rows]
        self._title, self._gap = title, gap
        self._columns = [_Column(name, [row[at] for row in values], name in right) for at, name in enumerate(columns)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._title is not None:
            yield Text(self._title, style="italic")
        yield from _Layout(self._columns, console, options.max_width, self._gap).lines()


class _Column:
    def __init__(self, name: str, values: Sequence[object], is_right: bool) -> None:
        self.name = printable(name)
        self.cells = [value if isinstance(value, Text) else printable(human(value)) for value in values]
        self.width = max(cell_len(cell.plain) for cell in (self.name, *self.cells))
        self.is_empty = all(cell.plain in _EMPTY for cell in self.cells)
        self.is_prose = any(" " in cell.plain for cell in self.cells)
        numbers = [value for value in values if value is not None]
        self.is_right = is_right or (
            bool(numbers) and all(isinstance(each, int | float) and not isinstance(each, bool) for each in numbers)
        )

    def padded(self, cell: Text, width: int) -> Text:
        padding = Text(" " * (width - cell_len(cell.plain)))
        return padding + cell if self.is_right else cell + padding


class _Layout:
    def __init__(self, columns: Sequence[_Column], console: Console, width: int, gap: int) -> None:
        self._columns, self._console, self._width, self._gap = columns, console, width, gap

    def lines(self) -> Iterator[Text]:
        if self._fitting() < len(self._columns):
            empty = [column.name.plain for column in self._columns if column.is_empty]
            self._columns = [column for column in self._columns if not column.is_empty]
            yield from self._narrow()
            if empty:
                yield from _indented(self._console, [Text(f"nothing in {', '.join(empty)}", "dim")], self._width, 0)
        else:
            yield from self._grid()

    def _narrow(self) -> Iterator[Text]:
        self._bound_lead()
        first, every = self._fitting(), len(self._columns)
        left = self._width - self._total(every - 1) - self._gap
        if first == every:
            yield from self._grid()
        elif left >= _MIN_PROSE and self._columns[-1].is_prose:
            yield from self._grid(left)
        elif first >= 2 and every - first <= _MAX_FOLDED and len(self._columns[0].cells) > 1:
            yield from self._folded(first)
        else:
            yield from self._blocks()

    def _bound_lead(self) -> None:
        """Limit the first column's width, so that a long name does not change the table's form."""
        if not self._columns:
            return
        lead = self._columns[0]
        room = self._width - (self._total(len(self._columns)) - lead.width)
        lead.width = min(lead.width, room if room >= _MIN_LEAD else max(self._width // 2, cell_len(lead.name.plain)))

    def _total(self, count: int) -> int:
        return sum(column.width for column in self._columns[:count]) + self._gap * max(0, count - 1)

    def _fitting(self) -> int:
        counts = range(len(self._columns) + 1)
        return max(count for count in counts if not count or self._total(count) <= self._width)

    def _rows(self) -> Iterator[tuple[Text, ...]]:
        return zip(*(column.cells for column in self._columns), strict=True)

    # A line per row

    def _grid(self, last: int | None = None) -> Iterator[Text]:
        """Yield the header and the rows. `last` is the width to which the last column is wrapped."""
        yield self._header(len(self._columns))
        indent = self._total(len(self._columns) - 1) + self._gap
        for row in self._rows():
            first, *others = [row[-1]] if last is None else _wrapped(self._console, row[-1], last)
            yield from self._row([*row[:-1], first])
            yield from (Text(" " * indent) + line for line in others)

    def _header(self, count: int) -> Text:
        return self._line([Text(column.name.plain, "bold") for column in self._columns[:count]])

    def _row(self, cells: Sequence[Text]) -> Iterator[Text]:
        if cell_len(cells[0].plain) > self._columns[0].width:
            yield from _wrapped(self._console, cells[0], self._width)
            cells = [Text(), *cells[1:]]
        yield self._line(cells)

    def _line(self, cells: Sequence[Text]) -> Text:
        padded = (column.padded(cell, column.width) for column, cell in zip(self._columns, cells, strict=False))
        line = Text(" " * self._gap).join(padded)
        line.rstrip()
        return line

    # Lines below a row

    def _folded(self, first: int) -> Iterator[Text]:
        yield self._header(first)
        names = [Text(column.name.plain + " ", "dim") for column in self._columns[first:]]
        for row in self._rows():
            yield from self._row(row[:first])
            pairs = [name + cell for name, cell in zip(names, row[first:], strict=True) if cell.plain not in _EMPTY]
            yield from _indented(self._console, _packed(pairs, self._width - _INDENT), self._width, _INDENT)

    # A block per row

    def _blocks(self) -> Iterator[Text]:
        names = [Text(column.name.plain, "bold") for column in self._columns]
        beside = max((cell_len(name.plain) for name in names), default=0) + self._gap
        for number, row in enumerate(self._rows()):
            if number:
                yield Text()
            for name, cell in zip(names, row, strict=True):
                if self._width - beside >= _MIN_PROSE // 2:
                    first, *others = _wrapped(self._console, cell, self._width - beside)
                    yield name + Text(" " * (beside - cell_len(name.plain))) + first
                    yield from (Text(" " * beside) + line for line in others)
                else:
                    yield from _wrapped(self._console, name, self._width)
                    yield from _indented(self._console, [cell], self._width, _INDENT)


def _packed(pairs: Iterable[Text], width: int) -> Iterator[Text]:
    line = Text()
    for pair in pairs:
        if line and cell_len(line.plain) + 2 + cell_len(pair.plain) > width:
            yield line
            line = Text()
        line = line + Text("  ") + pair if line else pair
    if line:
        yield line


def _indented(console: Console, lines: Iterable[Text], width: int, indent: int) -> Iterator[Text]:
    for line in lines:
        yield from (Text(" " * indent) + part for part in _wrapped(console, line, width - indent) if part)


def _wrapped(console: Console, text: Text, width: int) -> list[Text]:
    """Wrap a text, and return at least one line."""
    lines = list(text.wrap(console, max(1, width)))
    for line in lines:
        line.rstrip()
    return lines or [Text()]

"""Renders `pid-quota top` within 80 columns."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from jobs.output.hold_text import confirmed_text, counts_text, hold_text
from jobs.output.human import counted, plural
from jobs.output.terminal import printable
from jobs.output.text_tables import TextTable
from tables.query.freshness import Freshness
from tables.query.top_rows import Detail, TopRow


class Column(NamedTuple):
    """A column of the list of principals."""

    name: str
    width: int
    is_right: bool = False

    def aligned(self, text: str) -> str:
        """Pad a text to the column's width."""
        return text.rjust(self.width) if self.is_right else text.ljust(self.width)


COLUMNS = (
    Column("principal", 17),
    Column("new/quota", 11, is_right=True),
    Column("used", 8),
    Column("tokens", 6, is_right=True),
    Column("until", 8),
    Column("refused", 7, is_right=True),
    Column("active", 6, is_right=True),
    Column("why", 9),
)
"""The columns, which take 80 characters with a space after each."""

_BAR = 8
_SPARK = " ▁▂▃▄▅▆▇█"
_SPARK_WIDTH = 60
_SHORT = {
    "producer per message/batch": "per batch",
    "restart loop": "restarts",
    "new producer on error": "on error",
}
_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def cells(row: TopRow) -> tuple[Text, ...]:
    """Return a row's cells, in the order of `COLUMNS`, padded to the columns' widths."""
    padded = []
    for column, cell in zip(COLUMNS, plain_cells(row), strict=True):
        blanks = Text(" " * (column.width - len(cell)))
        padded.append(blanks + cell if column.is_right else cell + blanks)
    return tuple(padded)


def plain_cells(row: TopRow) -> tuple[Text, ...]:
    """Return a row's cells, in the order of `COLUMNS`."""
    until = row.throttled_until
    quota = "-" if row.quota is None else number(row.quota)
    return (
        _styled(printable(row.principal), "bold red" if until else ""),
        Text(f"{number(row.new_pids)}/{quota}"),
        bar(row.used_share) if row.quota else Text(),
        Text("-" if row.tokens is None else number(row.tokens)),
        Text("" if until is None else f"{until:%H:%M:%S}", "red"),
        Text(number(row.refused_pids), "red" if row.refused_pids else ""),
        Text(number(row.active_pids)),
        printable(why(row)),
    )


def why(row: TopRow) -> str:
    """Return `saturated`, `learning`, or a short form of the diagnosis."""
    if row.saturated:
        return "saturated"
    if row.phase == "learning":
        return "learning"
    return _SHORT.get(row.diagnosis, row.diagnosis)


def bar(share: float) -> Text:
    """Return a usage bar. An arrow marks more than 100 %.

    Examples:
        >>> bar(0.5).plain, bar(3).plain
        ('████────', '███████▶')
    """
    full = min(_BAR, round(share * _BAR))
    text = "█" * full + "─" * (_BAR - full)
    if share > 1:
        text = "█" * (_BAR - 1) + "▶"
    return Text(text, style="red" if share >= 1 else "yellow" if share >= 0.8 else "green")


def number(value: float) -> str:
    """Format a number in at most five characters, or six with a minus sign.

    Examples:
        >>> number(1234), number(-0.5), number(12_345), number(1e9), number(999_999), number(3.0)
        ('1,234', '-0.5', '12.3k', '1G', '1M', '3')
    """
    if abs(value) < 9_999.5:
        return f"{value:,.0f}" if value == round(value) or abs(value) >= 100 else f"{value:.1f}"
    for unit, letter in _UNITS:
        if abs(value) >= unit * 0.9995:
            scaled = value / unit
            return f"{scaled:.1f}".removesuffix(".0") + letter if abs(scaled) < 99.95 else f"{scaled:.0f}{letter}"
    return f"{value:.0f}"


def spark(values: Sequence[float], top: float) -> str:
    """Return values as a sparkline, scaled to `top`.

    Examples:
        >>> spark([0, 1, 4, 8], 8)
        ' ▁▄█'
    """
    scale = (len(_SPARK) - 1) / max(top, 1e-9)
    return "".join(_SPARK[min(len(_SPARK) - 1, max(int(value > 0), round(value * scale)))] for value in values)


def rows_table(rows: Sequence[TopRow]) -> TextTable:
    """Return the principals as a table."""
    right = [column.name for column in COLUMNS if column.is_right]
    return TextTable([column.name for column in COLUMNS], map(plain_cells, rows), right=right, gap=1)


def warning_text(freshness: Freshness) -> Text:
    """Return a warning in two lines if the tables are stale, else an empty text."""
    warning = freshness.warning()
    return Text(f"{warning}\n{freshness.advice}" if warning else "")


def summary(rows: Sequence[TopRow], freshness: Freshness) -> str:
    """Return totals in one line."""
    now = freshness.now
    if freshness.is_stale:
        # Without recent rows, the present numbers are unknown, not zero.
        return (
            f"{now:%H:%M:%S} UTC  {len(rows):,} principals as of {freshness.since}; it is unknown who is throttled now"
        )
    throttled = sum(row.throttled_until is not None for row in rows)
    held = sum(row.hold == "held" for row in rows)
    new, refused = sum(row.new_pids for row in rows), sum(row.refused_pids for row in rows)
    return (
        f"{now:%H:%M:%S} UTC  {plural(len(rows), 'principal')}, {throttled} throttled, {held} held, "
        f"{number(new)} new {'PID' if new == 1 else 'PIDs'}, {number(refused)} refused"
    )


def detail_view(detail: Detail, freshness: Freshness | None = None) -> RenderableType:
    """Return a principal in detail, after a warning if the tables are stale."""
    parts: list[RenderableType] = [_styled(printable(detail.principal), "bold")]
    if freshness is not None and freshness.is_stale:
        parts.insert(0, _styled(warning_text(freshness), "bold yellow"))
    lines = (_timeline(detail.timeline), _decisions(detail.decisions), _hold(detail.hold), _clients(detail.clients))
    parts += [printable(line) for line in chain.from_iterable(lines)]
    return Group(*parts)


def _timeline(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    if not rows:
        yield "no metrics in the last 24 hours"
        return
    shown = rows[-_SPARK_WIDTH:]
    quota = shown[-1]["quota"]
    top = max(row["new_pids_window"] for row in shown)
    yield ""
    yield f"{shown[0]['window_end']:%H:%M} to {shown[-1]['window_end']:%H:%M} UTC, a column per interval"
    limit = "no quota" if quota is None else f"quota {number(quota)}"
    line = spark([row["new_pids_window"] for row in shown], max(top, quota or 0))
    yield f"{'per window':<11}{line} top {number(top)}, {limit}"
    for title, name in (("admitted", "admitted_pids"), ("refused", "refused_pids"), ("active", "active_pids")):
        values = [row[name] for row in shown]
        yield f"{title:<11}{spark(values, max(values))} now {number(values[-1])}"
    yield f"{'throttled':<11}{''.join('▀' if row['throttled'] else ' ' for row in shown)}"


def _decisions(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield ""
    yield "decisions" if rows else "no decisions in the last 24 hours"
    for row in rows:
        until = f" until {row['throttled_until']:%H:%M:%S}" if row["action"] == "THROTTLE" else ""
        refused = plural(row["refused_pids"] or 0, "PID")
        yield f"  {row['decided_at']:%H:%M:%S} {row['action']}{until}, {refused} refused"
    if rows and rows[0]["client_ids"]:
        yield f"  client ids: {counted(rows[0]['client_ids'])}"
        if rows[0]["addresses"]:
            yield f"  addresses: {counted(rows[0]['addresses'])}"
        yield "  such as PIDs " + ", ".join(str(pid) for pid in (rows[0]["sample_pids"] or [])[:6])


def _hold(row: Mapping[str, Any] | None) -> Iterator[str]:
    yield ""
    if row is None:
        yield "no hold"
        return
    if row["hold"] != "held":
        yield hold_text(row)
        return
    yield f"on hold since {row['held_since']:%H:%M:%S} until {row['hold_ends']:%H:%M:%S}, {confirmed_text(row)}"
    yield f"  {counts_text(row)}"


def _clients(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield "clients (pid-quota why explains how to fix them)"
    for row in rows:
        made = plural(row["new_pids"], "new PID")
        yield f"  {row['client']}: {row['kind']}, {made} from {plural(row['hosts'], 'address', 'addresses')}"


def _styled(text: Text, style: str) -> Text:
    text.stylize(style)
    return text

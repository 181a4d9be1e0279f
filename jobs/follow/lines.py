"""Options, start times and lines of `pid-quota events` and `pid-quota decisions`."""

import re
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any

import typer

from jobs.output.json_out import print_json
from jobs.output.terminal import printable

FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Continue with new rows until Ctrl-C.")]
SinceOption = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Time to start at: 10m, 2h or 1d ago, or a time in ISO 8601. [default: the end with --follow, else 10m]",
    ),
]

_AGO = re.compile(r"(\d+)([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DEFAULT = "10m"


def start(since: str | None, now: datetime, *, follow: bool) -> datetime | None:
    """Return the time from which to show lines, or None to show only new lines.

    Examples:
        >>> noon = datetime(2026, 1, 15, 12, tzinfo=timezone.utc)
        >>> start("90s", noon, follow=True).time(), start("2026-01-15T11:00", noon, follow=True).hour
        (datetime.time(11, 58, 30), 11)
        >>> start(None, noon, follow=True), start(None, noon, follow=False).minute
        (None, 50)
    """
    if since is None and follow:
        return None
    text = since or _DEFAULT
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except (ValueError, OverflowError) as error:
        msg = f"--since {text!r} is not a time: write 10m, 2h, 1d, or 2026-01-15T12:00 (UTC)"
        raise typer.BadParameter(msg) from error
    return at if at.tzinfo else at.replace(tzinfo=timezone.utc)


def emit(text: str, record: dict[str, Any], *, as_json: bool) -> None:
    """Print `text`, or `record` as JSON, and flush standard output for readers of a pipe."""
    if as_json:
        print_json(record)
    else:
        print(printable(text).plain, flush=True)

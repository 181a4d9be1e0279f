"""Warns on standard error that nothing arrives any more, apart from the values, which programs read."""

from datetime import datetime

import typer

from tables.errors import TablesError
from tables.query.freshness import STALE_AFTER_S, Freshness, read_freshness


def warn_if_stale(tables: str, now: datetime, stale_seconds: float = STALE_AFTER_S) -> Freshness:
    """Read when the newest row is from, and warn if that is long ago."""
    freshness = read_freshness(tables, now, stale_seconds)
    if freshness.is_stale:
        typer.echo(f"warning: {freshness.warning()}\n{freshness.advice}", err=True)
    return freshness


def warn_if_known_stale(tables: str, now: datetime) -> None:
    """Do the same for a reader who may have rights on some of the tables alone."""
    try:
        warn_if_stale(tables, now)
    except TablesError:
        return

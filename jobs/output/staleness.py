"""Warns on standard error if the tables no longer get new rows."""

from datetime import datetime

import typer

from tables.errors import TablesError
from tables.query.freshness import Freshness, read_freshness


def warn_if_stale(tables: str, now: datetime) -> Freshness:
    """Warn if the newest row is old."""
    freshness = read_freshness(tables, now)
    if freshness.is_stale:
        typer.echo(f"warning: {freshness.warning()}\n{freshness.advice}", err=True)
    return freshness


def warn_if_known_stale(tables: str, now: datetime) -> None:
    """Warn as `warn_if_stale` does, if the tables can be read."""
    try:
        warn_if_stale(tables, now)
    except TablesError:
        return

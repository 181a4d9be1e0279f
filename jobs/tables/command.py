"""The command `pid-quota tables`."""

from typing import Annotated

import typer

from jobs.once import OnceCommand
from jobs.options import TablesOption
from jobs.output.progress import progress_bar
from jobs.output.tables_out import show
from jobs.tables.maintain import maintain
from tables.schema.metric_views import metric_views as definitions
from tables.store.open import open_store
from tables.store.values import Answer

app = typer.Typer(no_args_is_help=True, add_completion=False)
app.command(cls=OnceCommand)(maintain)


@app.command(cls=OnceCommand)
def create(
    tables: TablesOption,
    metric_views: Annotated[
        bool,
        typer.Option(
            "--metric-views",
            help="Also create a catalog's metric views: new, refused and issued PIDs, and throttles.",
        ),
    ] = False,
) -> None:
    """Create missing tables and, in a catalog, their views."""
    with open_store(tables) as store, progress_bar("creating the tables"):
        done = store.create()
        store.create_views()
        if metric_views:
            store.create_metric_views()
    rows = [(name, "created" if is_new else "unchanged") for name, is_new in done.items()]
    rows += [(name, "made") for name in definitions()] if metric_views else []
    show(Answer(("table", "done"), tuple(rows)), "table")

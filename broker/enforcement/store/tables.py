"""Opens the enforcer's tables, in a folder or in a catalog."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from broker.enforcement.ports import ActionLog, DecisionSource
from broker.enforcement.store.catalog_tables import CatalogActions, CatalogDecisions, LazyEngine, newest_write_ms
from broker.enforcement.store.path_tables import ActionTable, DecisionTable, FollowedTable, newest_commit_ms
from tables.schema.specs import VERSION_PROPERTY
from tables.store.migration import require_version
from tables.store.path_tables import is_catalog, open_table, table_path

STREAM_TABLES = ("producer_id_metrics", "throttle_decisions")
"""Tables that a running stream writes regularly."""


@dataclass(frozen=True)
class EnforcementTables:
    """How to open the tables.

    Attributes:
        decisions: Opens `throttle_decisions`.
        actions: Opens `enforcement_actions`; each reader remembers what it has seen.
        newest_write_ms: Returns when the stream last wrote, in milliseconds since the epoch.
    """

    decisions: Callable[[], DecisionSource]
    actions: Callable[[], ActionLog]
    newest_write_ms: Callable[[], int]

    @classmethod
    def open(cls, stack: ExitStack, tables: str) -> "EnforcementTables":
        """Choose by the form of `tables`; reads nothing. `stack` closes the connection to a catalog."""
        if is_catalog(tables):
            engine = LazyEngine(tables)
            stack.callback(engine.close)
            return cls(
                lambda: CatalogDecisions(engine),
                lambda: CatalogActions(engine),
                lambda: newest_write_ms(engine, STREAM_TABLES),
            )
        followed = [FollowedTable(tables, name) for name in STREAM_TABLES]
        return cls(lambda: DecisionTable(tables), lambda: ActionTable(tables), lambda: newest_commit_ms(followed))


def require_readable(tables: str) -> None:
    """Open the tables that a dry run reads, and leave them as they are. A catalog is asked with the decisions.

    Raises:
        TableError: If there are none, or they are of a newer version.
    """
    for name in () if is_catalog(tables) else STREAM_TABLES:
        table = open_table(tables, name)
        require_version(str(table.metadata().configuration.get(VERSION_PROPERTY, "0")), table_path(tables, name))

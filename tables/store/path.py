"""Tables in a folder or in an object store, through `deltalake` and DuckDB."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any

import pyarrow as pa

from tables.errors import TableError, first_line
from tables.schema.ddl import deltalake_literal, row_schema, with_literals
from tables.schema.specs import TABLES, TableSpec
from tables.store import duck
from tables.store.base import Relations, TableStore
from tables.store.commits import leaving_old_log, retry_conflicts
from tables.store.facts import column_facts, table_facts
from tables.store.follow import FollowedTable
from tables.store.kept_files import KeptTables
from tables.store.path_tables import ask, create_missing, is_delta_error, open_table, table_path
from tables.store.upkeep import alone, keep_up
from tables.store.values import (
    ALL_ROWS,
    SETTINGS_TABLE,
    Answer,
    ColumnFacts,
    Row,
    RowFilter,
    StreamSettings,
    TableCommit,
    TableFacts,
    Upkeep,
    UpkeepPlan,
)


class PathStore(TableStore):
    """The tables of a folder or an object store."""

    look = ("pgrep -af 'pid-quota stream'", "pid-quota doctor")

    def create(self) -> dict[str, bool]:
        """Create missing tables; return whether each table is new."""
        before = self.existing()
        create_missing(self.tables)
        return {name: name not in before for name in TABLES}

    def ensure_tables(self, having: str | None = None) -> None:
        """Raise an error if the table `having` is missing, else create missing tables."""
        if having is not None:
            open_table(self.tables, having)
        create_missing(self.tables)

    def existing(self) -> list[str]:
        """Return the names of the existing tables."""
        from deltalake import DeltaTable

        return [name for name in TABLES if DeltaTable.is_deltatable(table_path(self.tables, name))]

    def properties(self, name: str) -> Mapping[str, str]:
        """Return a table's properties."""
        found: Mapping[str, str] = open_table(self.tables, name).metadata().configuration
        return found

    def create_views(self) -> None:
        """Do nothing, because each query defines its views."""

    def write_settings(self, settings: StreamSettings) -> None:
        """Store the stream's settings in a table's properties."""
        wanted = settings.properties()

        def commit() -> None:
            table = open_table(self.tables, SETTINGS_TABLE)
            if not wanted.items() <= table.metadata().configuration.items():
                # Delta does not know this project's properties.
                table.alter.set_table_properties(wanted, raise_if_not_exists=False, **leaving_old_log())

        self._commit(SETTINGS_TABLE, commit)

    def table_id(self, name: str) -> str:
        """Return a table's Delta id."""
        return str(open_table(self.tables, name).metadata().id)

    def query(self, sql: str, now: datetime, parameters: Mapping[str, object] | None = None) -> Answer:
        """Run one SELECT. Only mentioned tables are opened."""
        with duck.connected(now, self.window_ms(sql)) as connection:
            return duck.query(connection, self.tables, sql, parameters or {})

    @contextmanager
    def relations(
        self, now: datetime, rows: Mapping[str, RowFilter], kept: KeptTables | None = None
    ) -> Iterator[Relations]:
        """Open tables for several queries."""
        with duck.connected(now) as connection:
            yield duck.DuckRelations(connection, self, rows, kept)

    def read(self, name: str, rows: RowFilter = ALL_ROWS) -> list[Row]:
        """Return rows of a table."""
        table = open_table(self.tables, name)
        try:
            return ask(table, with_literals(rows.select("t"), rows.values, deltalake_literal))
        except Exception as error:
            if not is_delta_error(error):
                raise
            msg = f"can't read table {name} in {self.tables}: {first_line(error)}. Check the folder given by --tables"
            raise TableError(msg) from error

    def follow(self, name: str, columns: Sequence[str] = ()) -> FollowedTable:
        """Return a table to follow."""
        return FollowedTable(self.tables, name, columns)

    def append(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows atomically."""
        from deltalake import write_deltalake

        found = pa.Table.from_pylist(list(rows), schema=row_schema(name))

        def commit() -> None:
            # Open the table first, because deltalake would create a missing table if it got a path.
            write_deltalake(open_table(self.tables, name), found, mode="append", **leaving_old_log())

        # In deltalake, an append that overlaps a delete fails, although an append reads nothing. So retry appends.
        self._commit(name, commit)

    def merge(
        self, name: str, keys: Sequence[str], rows: Iterable[Mapping[str, Any]], remove: Iterable[Mapping[str, Any]]
    ) -> None:
        """Insert, update and delete rows in one commit."""
        columns = TABLES[name].schema.names
        # Rows to delete have only their keys.
        schema = pa.schema([*(each.with_nullable(True) for each in row_schema(name)), pa.field("removed", pa.bool_())])
        source = pa.Table.from_pylist(
            [*({**row, "removed": False} for row in rows), *({**row, "removed": True} for row in remove)], schema=schema
        )
        same = " AND ".join(f"(old.{key} IS NOT DISTINCT FROM new.{key})" for key in keys)
        new = {column: f"new.{column}" for column in columns}

        def commit() -> None:
            merger = open_table(self.tables, name).merge(source, same, "new", "old", **leaving_old_log())
            merger = merger.when_matched_delete("new.removed").when_matched_update(new, "NOT new.removed")
            merger.when_not_matched_insert(new, "NOT new.removed").execute()

        self._commit(name, commit)

    def facts(self, spec: TableSpec) -> TableFacts:
        """Return a table's size and contents."""
        return table_facts(spec, open_table(self.tables, spec.name))

    def columns(self, spec: TableSpec) -> list[ColumnFacts]:
        """Return a table's columns, in order."""
        return column_facts(open_table(self.tables, spec.name))

    def history(self, name: str, limit: int) -> list[TableCommit]:
        """Return a table's last commits, newest first."""
        return [
            TableCommit(
                int(commit.get("version", 0)), int(commit.get("timestamp", 0)), str(commit.get("userMetadata", ""))
            )
            for commit in open_table(self.tables, name).history(limit)
        ]

    def has_rows(self, name: str) -> bool:
        """Return whether a table has a data file."""
        return bool(open_table(self.tables, name).file_uris())

    def keep_up(self, spec: TableSpec, plan: UpkeepPlan, now: datetime) -> Upkeep:
        """Maintain a table; see `tables.store.upkeep.keep_up`."""
        return keep_up(self.tables, spec, plan, now)

    def alone(self) -> AbstractContextManager[None]:
        """Return a lock on a local folder, because concurrent compactions by deltalake may duplicate rows."""
        return alone(self.tables)

    def save(self, writer: Any, name: str) -> None:
        """Run a Spark `DataFrameWriter` that appends to a table."""
        writer.save(table_path(self.tables, name))

    def spark_name(self, name: str) -> str:
        """Return the name by which Spark SQL reads a table."""
        return f"delta.`{table_path(self.tables, name)}`"

    def _commit(self, name: str, commit: Any) -> None:
        from deltalake.exceptions import DeltaError

        try:
            retry_conflicts(commit)
        except (DeltaError, OSError) as error:
            place = table_path(self.tables, name)
            msg = f"can't write {place}: {first_line(error)}. Check the folder given by --tables"
            raise TableError(msg) from error

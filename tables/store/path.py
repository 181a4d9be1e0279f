"""Tables in a folder or in an object store, through `deltalake` and DuckDB."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from typing_extensions import override

from tables.errors import TableError, first_line
from tables.schema.ddl import deltalake_literal, row_schema, with_literals
from tables.schema.specs import TABLES
from tables.store import duck
from tables.store.base import Relations, TableStore
from tables.store.commits import leaving_old_log, retry_conflicts
from tables.store.log_upkeep import tidy_log
from tables.store.path_tables import create_missing, data_files, open_table, select_rows, table_path, table_to_read
from tables.store.upkeep import alone, merge_files, quietly, vacuum
from tables.store.values import ALL_ROWS, Answer, Row, RowFilter, TableCommit, Tidied, UpkeepPlan

if TYPE_CHECKING:
    from deltalake import DeltaTable

_Result = TypeVar("_Result")


class PathStore(TableStore):
    """The tables of a folder or an object store."""

    look = ("the log of `pid-quota run`", "pid-quota doctor")

    @override
    def create(self) -> dict[str, bool]:
        before = self.existing()
        create_missing(self.tables)
        return {name: name not in before for name in TABLES}

    @override
    def ensure_tables(self, having: str | None = None) -> None:
        if having is not None:
            open_table(self.tables, having)
        create_missing(self.tables)

    @override
    def existing(self) -> list[str]:
        from deltalake import DeltaTable

        return [name for name in TABLES if DeltaTable.is_deltatable(table_path(self.tables, name))]

    @override
    def table_id(self, name: str) -> str:
        return str(open_table(self.tables, name).metadata().id)

    @override
    def properties(self, name: str) -> Mapping[str, str]:
        found: Mapping[str, str] = open_table(self.tables, name).metadata().configuration
        return found

    @override
    def require_known_version(self, name: str) -> None:
        table_to_read(self.tables, name)
        super().require_known_version(name)

    @override
    def set_properties(self, name: str, wanted: Mapping[str, str]) -> None:
        def commit() -> None:
            table = open_table(self.tables, name)
            if not wanted.items() <= table.metadata().configuration.items():
                # Delta does not know this project's properties.
                table.alter.set_table_properties(dict(wanted), raise_if_not_exists=False, **leaving_old_log())

        self._commit(name, commit)

    @override
    def create_views(self) -> None:
        """Do nothing, because each query defines its views."""

    @override
    def query(self, sql: str, now: datetime, parameters: Mapping[str, object] | None = None) -> Answer:
        with duck.connected(now, self.window_ms(sql)) as connection:
            return duck.query(connection, self.tables, sql, parameters or {})

    @override
    @contextmanager
    def relations(self, now: datetime, rows: Mapping[str, RowFilter]) -> Iterator[Relations]:
        with duck.connected(now) as connection:
            yield duck.DuckRelations(connection, self, rows)

    @override
    def read(self, name: str, rows: RowFilter = ALL_ROWS) -> list[Row]:
        found: list[Row] = select_rows(self.tables, name, rows).to_pylist(maps_as_pydicts="lossy")
        return found

    @override
    def append(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        from deltalake import write_deltalake

        found = pa.Table.from_pylist(list(rows), schema=row_schema(name))
        # In deltalake, an append that overlaps a delete fails, although an append reads nothing. So retry appends.
        # Open the table first, because deltalake would create a missing table if it got a path.
        self._commit(
            name,
            lambda: write_deltalake(open_table(self.tables, name), found, mode="append", **leaving_old_log()),
        )

    @override
    def merge(
        self, name: str, keys: Sequence[str], rows: Iterable[Mapping[str, Any]], remove: Iterable[Mapping[str, Any]]
    ) -> None:
        columns = TABLES[name].schema.names
        # Rows to delete have only their keys.
        schema = pa.schema([*(each.with_nullable(True) for each in row_schema(name)), pa.field("removed", pa.bool_())])
        source = pa.Table.from_pylist(
            [*({**row, "removed": False} for row in rows), *({**row, "removed": True} for row in remove)], schema=schema
        )
        same = " AND ".join(f"(old.{key} IS NOT DISTINCT FROM new.{key})" for key in keys)
        new = {column: f"new.{column}" for column in columns}

        def commit() -> None:
            merger = table_to_read(self.tables, name).merge(source, same, "new", "old", **leaving_old_log())
            merger = merger.when_matched_delete("new.removed").when_matched_update(new, "NOT new.removed")
            merger.when_not_matched_insert(new, "NOT new.removed").execute()

        self._commit(name, commit)

    @override
    def delete(self, name: str, rows: RowFilter) -> int:
        condition = with_literals(rows.condition, rows.values, deltalake_literal)
        return self._rewrite(name, lambda table: int(table.delete(condition, **quietly())["num_deleted_rows"]))

    @override
    def tidy(self, name: str, plan: UpkeepPlan, now: datetime) -> Tidied:
        merged = self._rewrite(name, lambda table: merge_files(table, plan))
        vacuumed = self._rewrite(name, lambda table: vacuum(table, plan))
        folder = None if "://" in self.tables else Path(table_path(self.tables, name))
        log_files = 0 if plan.dry_run else self._rewrite(name, lambda table: tidy_log(table, folder, now))
        return Tidied(merged, vacuumed, log_files)

    @override
    def extent(self, name: str) -> tuple[int, int, int]:
        table = open_table(self.tables, name)
        files = data_files(table)
        return table.version(), files.num_rows, sum(files["size_bytes"].to_pylist())

    @override
    def history(self, name: str, limit: int) -> list[TableCommit]:
        return [
            TableCommit(
                int(commit.get("version", 0)), int(commit.get("timestamp", 0)), str(commit.get("userMetadata", ""))
            )
            for commit in open_table(self.tables, name).history(limit)
        ]

    @override
    def alone(self) -> AbstractContextManager[None]:
        return alone(self.tables)

    @override
    def save(self, writer: Any, name: str) -> None:
        writer.save(table_path(self.tables, name))

    @override
    def spark_name(self, name: str) -> str:
        return f"delta.`{table_path(self.tables, name)}`"

    def _rewrite(self, name: str, step: "Callable[[DeltaTable], int]") -> int:
        return self._commit(name, lambda: step(table_to_read(self.tables, name)))

    def _commit(self, name: str, commit: Callable[[], _Result]) -> _Result:
        from deltalake.exceptions import DeltaError

        try:
            return retry_conflicts(commit)
        except (DeltaError, OSError) as error:
            place = table_path(self.tables, name)
            msg = f"can't write {place}: {first_line(error)}. Finished steps are kept: check the folder and try again"
            raise TableError(msg) from error

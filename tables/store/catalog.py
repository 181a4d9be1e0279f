"""Tables in a catalog, through SQL in a Databricks runtime or on a SQL warehouse."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from typing_extensions import override

from tables.errors import CatalogError, QueryError, install_command
from tables.schema.catalog_views import DEFINITION_PROPERTY, CatalogView, catalog_metric_views, catalog_views
from tables.schema.ddl import (
    catalog_table,
    constraint_statements,
    create_statement,
    databricks_literal,
    insert_statement,
    merge_statement,
    with_literals,
)
from tables.schema.specs import TABLES
from tables.schema.views import mentioned, with_views
from tables.store.base import Relations, TableStore
from tables.store.engines import CatalogEngine, Engine, quoted
from tables.store.rights import Right, catalog_rights
from tables.store.values import ALL_ROWS, Answer, Row, RowFilter, TableCommit, Tidied, UpkeepPlan
from tables.times import to_ms

_LOG = logging.getLogger(__name__)
_NO_ROWS = "SELECT * FROM ({select}) LIMIT 0"
_READING = ("select", "union", "except", "intersect", "describe")
_DELETE = "DELETE FROM {table} WHERE {condition}"
_ROWS_PER_INSERT = 5_000


class CatalogStore(TableStore):
    """The tables of `catalog.schema`. The default engine connects on first use."""

    needs_session = True
    look = ("databricks jobs list-runs --active-only", "pid-quota doctor")

    def __init__(self, tables: str, engine: Engine | None = None) -> None:
        super().__init__(tables)
        self._lazy = CatalogEngine(tables)
        self._engine = engine or self._lazy

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._lazy.close()

    @override
    def create(self) -> dict[str, bool]:
        there = self.existing()
        for name, spec in TABLES.items():
            if name in there:
                self.require_known_version(name)
            else:
                self._engine.execute(create_statement(spec, self.tables))
            have = [key.removeprefix("delta.constraints.") for key in self.properties(name)] if spec.constraints else []
            for statement in constraint_statements(spec, self.tables, have):
                self._engine.execute(statement)
        return {name: name not in there for name in TABLES}

    @override
    def ensure_tables(self, having: str | None = None) -> None:
        """Do nothing, because in a catalog only the stream and `tables create` create tables."""

    @override
    def create_views(self) -> None:
        self._engine.execute(f"USE {quoted(self.tables)}")
        self._bring_up_to_date(catalog_views(self.tables, self.settings().window_seconds * 1000))

    @override
    def create_metric_views(self) -> None:
        self._bring_up_to_date(catalog_metric_views(self.tables))

    @override
    def rights(self) -> list[Right]:
        return catalog_rights(self._engine, self.tables)

    @override
    def existing(self) -> list[str]:
        found = self._engine.execute(f"SHOW TABLES IN {quoted(self.tables)}").records()
        there = {str(row.get("tableName", "")) for row in found}
        return [name for name in TABLES if name in there]

    @override
    def properties(self, name: str) -> Mapping[str, str]:
        return self._properties_of(self.spark_name(name))

    @override
    def set_properties(self, name: str, wanted: Mapping[str, str]) -> None:
        if not wanted.items() <= self.properties(name).items():
            pairs = ", ".join(f"{databricks_literal(key)} = {databricks_literal(each)}" for key, each in wanted.items())
            self._engine.execute(f"ALTER TABLE {self.spark_name(name)} SET TBLPROPERTIES ({pairs})")

    @override
    def table_id(self, name: str) -> str:
        return str(self._detail(name)["id"])

    @override
    def query(self, sql: str, now: datetime, parameters: Mapping[str, object] | None = None) -> Answer:
        del now
        _require_reading(sql, self.tables)
        text = with_views(sql.rstrip().rstrip(";"), self.window_ms(sql))
        return self._engine.execute(text, parameters)

    @override
    @contextmanager
    def relations(self, now: datetime, rows: Mapping[str, RowFilter]) -> Iterator[Relations]:
        del now
        yield _CatalogRelations(self, self._engine, rows)

    @override
    def read(self, name: str, rows: RowFilter = ALL_ROWS) -> list[Row]:
        return self._engine.execute(rows.select(self.spark_name(name)), rows.values).records()

    @override
    def append(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        for begin in range(0, len(rows), _ROWS_PER_INSERT):
            part = rows[begin : begin + _ROWS_PER_INSERT]
            self._engine.execute(insert_statement(self.spark_name(name), TABLES[name].schema.names, part))

    @override
    def merge(
        self, name: str, keys: Sequence[str], rows: Iterable[Mapping[str, Any]], remove: Iterable[Mapping[str, Any]]
    ) -> None:
        self._engine.execute(merge_statement(TABLES[name], self.spark_name(name), keys, rows, remove))

    @override
    def extent(self, name: str) -> tuple[int, int, int]:
        detail, (newest,) = self._detail(name), self.history(name, 1)
        return newest.version, detail["numFiles"], detail["sizeInBytes"]

    @override
    def history(self, name: str, limit: int) -> list[TableCommit]:
        found = self._engine.execute(f"DESCRIBE HISTORY {self.spark_name(name)} LIMIT {limit}").records()
        return [TableCommit(row["version"], to_ms(row["timestamp"]), row.get("userMetadata") or "") for row in found]

    @override
    def delete(self, name: str, rows: RowFilter) -> int:
        condition = with_literals(rows.condition, rows.values, databricks_literal)
        answer = self._engine.execute(_DELETE.format(table=self.spark_name(name), condition=condition))
        return int(answer.rows[0][0]) if answer.rows else 0

    @override
    def tidy(self, name: str, plan: UpkeepPlan, now: datetime) -> Tidied:
        table = self.spark_name(name)
        vacuum = f"VACUUM {table} RETAIN {plan.vacuum_hours} HOURS"
        if plan.dry_run:
            return Tidied(vacuumed_files=len(self._engine.execute(f"{vacuum} DRY RUN").rows))
        for statement in (f"OPTIMIZE {table}", vacuum, f"ANALYZE TABLE {table} COMPUTE STATISTICS"):
            self._engine.execute(statement)
        return Tidied()

    @override
    def save(self, writer: Any, name: str) -> None:
        writer.saveAsTable(self.spark_name(name))

    @override
    def spark_name(self, name: str) -> str:
        return catalog_table(self.tables, name)

    def _properties_of(self, full_name: str) -> Mapping[str, str]:
        rows = self._engine.execute(f"SHOW TBLPROPERTIES {full_name}").rows
        return {str(key): str(value) for key, value in rows}

    def _bring_up_to_date(self, wanted: Sequence[CatalogView]) -> None:
        found = self._engine.execute(f"SHOW VIEWS IN {quoted(self.tables)}").records()
        there = {catalog_table(self.tables, str(row["viewName"])) for row in found}
        for view in wanted:
            if view.name not in there:
                self._engine.execute(view.create_statement(self._columns_of(view)))
            elif self._properties_of(view.name).get(DEFINITION_PROPERTY) != view.digest:
                for statement in view.alter_statements():
                    self._engine.execute(statement)
                self._comment_on(view)

    def _columns_of(self, view: CatalogView) -> tuple[str, ...]:
        """Return a view's columns; none for a metric view, whose YAML has the comments."""
        return () if view.is_metric else self._engine.execute(_NO_ROWS.format(select=view.body)).columns

    def _comment_on(self, view: CatalogView) -> None:
        try:
            for statement in view.comment_statements(self._columns_of(view)):
                self._engine.execute(statement)
        except CatalogError as error:
            # A stream can run without comments.
            _LOG.warning("view %s has its new definition, but adding comments failed: %s", view.name, error)

    def _detail(self, name: str) -> Row:
        (detail,) = self._engine.execute(f"DESCRIBE DETAIL {self.spark_name(name)}").records()
        return detail


class _CatalogRelations:
    def __init__(self, store: CatalogStore, engine: Engine, rows: Mapping[str, RowFilter]) -> None:
        self._store, self._engine, self._rows = store, engine, rows
        self.settings = store.settings
        self.missing: dict[str, str] = {}

    def ask(self, select: str, parameters: Mapping[str, object] | None = None) -> Answer:
        text = with_views(select, self._store.window_ms(select))
        values = dict(parameters or {})
        parts = []
        for name in mentioned(text, self._rows):
            # A CTE with the short name of a table selects the table's filtered rows.
            parts.append(f"{name} AS ({self._rows[name].select(self._store.spark_name(name))})")
            values |= self._rows[name].values
        if parts:
            first, rest = ", ".join(parts), text.removeprefix("WITH ")
            text = f"WITH {first}, {rest}" if rest != text else f"WITH {first}\n{text}"
        return self._engine.execute(text, values)


def _require_reading(sql: str, tables: str) -> None:
    try:
        import sqlglot
    except ImportError as error:
        msg = f"a query on {tables} is checked by sqlglot before it runs: {install_command('databricks')}"
        raise QueryError(msg) from error
    try:
        kinds = [statement.key for statement in sqlglot.parse(sql, read="databricks") if statement]
    except sqlglot.ParseError as error:
        msg = f"the query can't be read: {error.errors[0]['description']}. Put one SELECT in quotes"
        raise QueryError(msg) from error
    if len(kinds) != 1 or kinds[0] not in _READING:
        found = ", ".join(kinds) or "none"
        msg = f"expected one SELECT, found {found}. This command only reads; put the query in quotes"
        raise QueryError(msg)

"""Tables in a catalog, through SQL in a Databricks runtime or on a SQL warehouse."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from tables.errors import CatalogError, QueryError, install_command
from tables.schema.catalog_views import DEFINITION_PROPERTY, CatalogView, catalog_metric_views, catalog_views
from tables.schema.ddl import (
    catalog_table,
    constraint_statements,
    create_statement,
    databricks_literal,
    insert_statement,
    merge_statement,
)
from tables.schema.specs import TABLES, TableSpec
from tables.schema.views import mentioned, with_views
from tables.store.base import Relations, TableStore
from tables.store.engines import Engine, LazyEngine, quoted
from tables.store.follow_query import FollowedQuery
from tables.store.kept_files import KeptTables
from tables.store.retention import Asker
from tables.store.rights import Right, catalog_rights
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
from tables.times import to_ms

_LOG = logging.getLogger(__name__)
_FACTS = "SELECT count(*) AS row_count, {oldest} AS oldest, {newest} AS newest FROM {table}"
_NO_ROWS = "SELECT * FROM ({select}) LIMIT 0"
_DELETE = "DELETE FROM {table} WHERE {condition}"
_READING = ("select", "union", "except", "intersect", "describe")
_ROWS_PER_INSERT = 5_000


class CatalogStore(TableStore):
    """The tables of `catalog.schema`. The default engine connects on first use."""

    needs_session = True
    # Each read is a query, which keeps a warehouse running.
    poll_seconds = 30.0
    look = ("databricks jobs list-runs --active-only", "pid-quota doctor")

    def __init__(self, tables: str, engine: Engine | None = None) -> None:
        super().__init__(tables)
        self._lazy = LazyEngine(tables)
        self._engine = engine or self._lazy

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._lazy.close()

    def create(self) -> dict[str, bool]:
        """Create missing tables and constraints; return whether each table is new."""
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

    def ensure_tables(self, having: str | None = None) -> None:
        """Do nothing, because in a catalog only the stream and `tables create` create tables."""

    def create_views(self) -> None:
        """Create missing views, and alter changed views."""
        self._engine.execute(f"USE {quoted(self.tables)}")
        self._bring_up_to_date(catalog_views(self.tables, self.settings().window_seconds * 1000))

    def create_metric_views(self) -> None:
        """Create missing metric views, and alter changed metric views."""
        self._bring_up_to_date(catalog_metric_views(self.tables))

    def rights(self) -> list[Right]:
        """Return the rights on the schema."""
        return catalog_rights(self._engine, self.tables)

    def existing(self) -> list[str]:
        """Return the names of the existing tables."""
        found = self._engine.execute(f"SHOW TABLES IN {quoted(self.tables)}").records()
        there = {str(row.get("tableName", "")) for row in found}
        return [name for name in TABLES if name in there]

    def properties(self, name: str) -> Mapping[str, str]:
        """Return a table's properties."""
        return self._properties_of(self.spark_name(name))

    def write_settings(self, settings: StreamSettings) -> None:
        """Store the stream's settings as a table's properties, and create or alter the views."""
        wanted = settings.properties()
        if not wanted.items() <= self.properties(SETTINGS_TABLE).items():
            pairs = ", ".join(f"{databricks_literal(key)} = {databricks_literal(each)}" for key, each in wanted.items())
            self._engine.execute(f"ALTER TABLE {self.spark_name(SETTINGS_TABLE)} SET TBLPROPERTIES ({pairs})")
        self._settings = settings
        self.create_views()

    def table_id(self, name: str) -> str:
        """Return a table's Delta id."""
        return str(self._detail(name)["id"])

    def query(self, sql: str, now: datetime, parameters: Mapping[str, object] | None = None) -> Answer:
        """Check with a parser that the statement only reads, then run the statement."""
        del now
        _require_reading(sql, self.tables)
        text = with_views(sql.rstrip().rstrip(";"), self.window_ms(sql))
        return self._engine.execute(text, parameters)

    @contextmanager
    def relations(
        self, now: datetime, rows: Mapping[str, RowFilter], kept: KeptTables | None = None
    ) -> Iterator[Relations]:
        """Open tables for several queries."""
        del now, kept
        yield _CatalogRelations(self, self._engine, rows)

    def read(self, name: str, rows: RowFilter = ALL_ROWS) -> list[Row]:
        """Return rows of a table."""
        return self._engine.execute(rows.select(self.spark_name(name)), rows.values).records()

    def follow(self, name: str, columns: Sequence[str] = ()) -> FollowedQuery:
        """Return a table to follow."""
        return FollowedQuery(self, name, columns)

    def append(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows, 5,000 at a time."""
        for begin in range(0, len(rows), _ROWS_PER_INSERT):
            part = rows[begin : begin + _ROWS_PER_INSERT]
            self._engine.execute(insert_statement(self.spark_name(name), TABLES[name].schema.names, part))

    def merge(
        self, name: str, keys: Sequence[str], rows: Iterable[Mapping[str, Any]], remove: Iterable[Mapping[str, Any]]
    ) -> None:
        """Insert, update and delete rows in one statement."""
        self._engine.execute(merge_statement(TABLES[name], self.spark_name(name), keys, rows, remove))

    def facts(self, spec: TableSpec) -> TableFacts:
        """Return a table's size and contents."""
        detail, (newest,) = self._detail(spec.name), self.history(spec.name, 1)
        column = f"`{spec.time_column}`" if spec.time_column else "NULL"
        select = _FACTS.format(oldest=f"min({column})", newest=f"max({column})", table=self.spark_name(spec.name))
        (counted,) = self._engine.execute(select).records()
        return TableFacts(
            spec.name,
            newest.version,
            counted["row_count"],
            detail["numFiles"],
            detail["sizeInBytes"],
            counted["oldest"],
            counted["newest"],
        )

    def columns(self, spec: TableSpec) -> list[ColumnFacts]:
        """Return a table's columns, in order."""
        required = {column.name for column in spec.schema if not column.nullable}
        columns = []
        for row in self._engine.execute(f"DESCRIBE TABLE {self.spark_name(spec.name)}").records():
            if not row["col_name"] or row["col_name"].startswith("#"):
                # Rows about partitioning and clustering follow the columns.
                break
            nullable = row["col_name"] not in required
            columns.append(ColumnFacts(row["col_name"], row["data_type"], nullable, row.get("comment") or ""))
        return columns

    def history(self, name: str, limit: int) -> list[TableCommit]:
        """Return a table's last commits, newest first."""
        found = self._engine.execute(f"DESCRIBE HISTORY {self.spark_name(name)} LIMIT {limit}").records()
        return [TableCommit(row["version"], to_ms(row["timestamp"]), row.get("userMetadata") or "") for row in found]

    def has_rows(self, name: str) -> bool:
        """Return whether a table has any row."""
        return bool(self.read(name, RowFilter("TRUE LIMIT 1", columns=("1 AS one",))))

    def keep_up(self, spec: TableSpec, plan: UpkeepPlan, now: datetime) -> Upkeep:
        """Delete a table's expired rows; compact, vacuum and analyse the table."""
        table = self.spark_name(spec.name)
        before = self.facts(spec)
        asker = Asker(table, lambda select: self._engine.execute(select).records(), databricks_literal)
        rows = asker.expired(spec, plan.days, now)
        if plan.dry_run:
            unneeded = self._engine.execute(f"VACUUM {table} RETAIN {plan.vacuum_hours} HOURS DRY RUN").rows
            return Upkeep(before, before, asker.count(rows) if rows else 0, None, len(unneeded), None)
        deleted = 0
        if rows:
            answer = self._engine.execute(_DELETE.format(table=table, condition=rows.as_text(databricks_literal)))
            deleted = int(answer.rows[0][0]) if answer.rows else 0
        self._engine.execute(f"OPTIMIZE {table}")
        self._engine.execute(f"VACUUM {table} RETAIN {plan.vacuum_hours} HOURS")
        self._engine.execute(f"ANALYZE TABLE {table} COMPUTE STATISTICS")
        return Upkeep(before, self.facts(spec), deleted, None, None, None)

    def save(self, writer: Any, name: str) -> None:
        """Run a Spark `DataFrameWriter` that appends to a table."""
        writer.saveAsTable(self.spark_name(name))

    def spark_name(self, name: str) -> str:
        """Return the table's full name, quoted."""
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

"""In an App that a test starts, makes `databricks.sql.connect` a FAKE warehouse that holds the demo's tables.

Python imports this by its name when it starts. What the warehouse is asked goes to a file, a statement a line. Who does
not sign in as the service principal is refused.
"""

import json
import os
import threading
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from databricks import sql
from databricks.sql.exc import RequestError

from tables.schema.specs import TABLES
from tables.store.path_tables import open_table
from tests.kits.warehouse_kit import CATALOG, SCHEMA, Connection, FakeWarehouse, Said
from tests.unit.jobs.table_rows import NOON


class _Warehouse(FakeWarehouse):
    def __init__(self, tables: str) -> None:
        super().__init__()
        self._lock = threading.Lock()
        later = pa.scalar(datetime.now(timezone.utc) - NOON)
        for name in TABLES:
            self.insert(name, _moved(open_table(tables, name).to_pyarrow_table(), later))

    def connect(self, server_hostname: str, http_path: str, access_token: str | None = None, **more: Any) -> Connection:
        headers = more["credentials_provider"]()()
        if headers.get("Authorization") != f"Bearer {os.environ['STAND_IN_TOKEN']}":
            msg = "the warehouse did not get the service principal's token"
            raise RequestError(msg)
        return super().connect(server_hostname, http_path, access_token, **more)

    def run(self, statement: str, parameters: object) -> Said:
        with self._lock, open(os.environ["STAND_IN_LOG"], "a", encoding="utf-8") as log:
            log.write(json.dumps(statement) + "\n")
            # The fake's one schema has a name of its own.
            catalog, schema = os.environ["PID_QUOTA_TABLES"].split(".")
            return super().run(statement.replace(f"`{catalog}`.`{schema}`", f"`{CATALOG}`.`{SCHEMA}`"), parameters)


def _moved(rows: pa.Table, later: pa.Scalar) -> pa.Table:
    """Move all times, so that the demo's last minute is the present."""
    for number, column in enumerate(rows.schema):
        if pa.types.is_timestamp(column.type):
            rows = rows.set_column(number, column.name, pc.add(rows[column.name], later).cast(column.type))
    return rows


if "STAND_IN_TABLES" in os.environ:
    vars(sql)["connect"] = _Warehouse(os.environ["STAND_IN_TABLES"]).connect

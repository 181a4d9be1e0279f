"""Refuses tables outside of a catalog whose rows `deltalake` and DuckDB can't read, and says how to mend them.

Spark and Databricks give tables such features. A catalog's tables may have any feature, because Spark or a warehouse
reads them.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from tables.errors import TableFeatureError

if TYPE_CHECKING:
    from deltalake import DeltaTable

_READ = frozenset({"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint"})
"""Features of a table that is readable unless it uses one of the first two. deltalake 1.6 lacks other features."""
_SET = "ALTER TABLE {table} SET TBLPROPERTIES"
_NO_MAPPING = (f"{_SET} ('delta.columnMapping.mode' = 'none')",)
_NO_VECTORS = (f"{_SET} ('delta.enableDeletionVectors' = 'false')", "REORG TABLE {table} APPLY (PURGE)")
# Without TRUNCATE HISTORY, Delta adds `checkpointProtection`, and deltalake does not write such a table.
_NO_FEATURE = ("ALTER TABLE {table} DROP FEATURE {feature} TRUNCATE HISTORY",)


def require_known(table: "DeltaTable", path: str) -> None:
    """Raise `TableFeatureError` if the table's columns have other names in files, or it has an unknown feature."""
    # A mended table keeps a feature in its protocol, so look at its use.
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        raise _refused(path, "column mapping", _NO_MAPPING)
    for feature in sorted(_features(table) - _READ):
        raise _refused(path, f"the feature {feature}", _NO_FEATURE, feature)


def require_whole(table: "DeltaTable", path: str) -> None:
    """Raise `TableFeatureError` if rows in the table's files are deleted. Appends to such a table are safe."""
    if "deletionVectors" in _features(table) and any(batch.num_rows for batch in table.deletion_vectors()):
        raise _refused(path, "deletion vectors", _NO_VECTORS)


def _features(table: "DeltaTable") -> frozenset[str]:
    return frozenset(table.protocol().reader_features or ())


def _refused(path: str, found: str, statements: tuple[str, ...], feature: str = "") -> TableFeatureError:
    place = path if "://" in path else str(Path(path).absolute())
    table = f"delta.`{place.replace('`', '``')}`"
    mend = " ".join(f"{each.format(table=table, feature=feature)};" for each in statements)
    return TableFeatureError(
        f"table {path} has {found}, and pid-quota reads such tables only in a catalog: in Spark SQL, run {mend} "
        "Then try again"
    )

"""Input and expected output of `runtime_run.py`."""

import re
from pathlib import Path
from typing import Any

from tests.kits.databricks_kit import ROOT

_SQL = re.compile(r"^## Change a quota\n.*?^```sql\n(.*?)^```", re.MULTILINE | re.DOTALL)


def prepared_statements(folder: Path) -> str:
    """Write the statements by which docs/databricks.md sets quotas into a file, and return its path."""
    text = (ROOT / "docs" / "databricks.md").read_text(encoding="utf-8")
    found = _SQL.search(text)
    assert found, "docs/databricks.md says no SQL under 'Change a quota'"
    file = folder / "quotas.sql"
    # Where the tables are is another place in a test.
    file.write_text(re.sub(r"^USE .*;\n", "", found[1]), encoding="utf-8")
    return str(file)


def assert_said(said: dict[str, Any]) -> None:
    """See that a flood of 30 on the default quota of 20 was throttled, and the steady principal left alone."""
    assert set(said["codes"]) == {0}
    assert said["provider"] == "RocksDBStateStoreProvider"
    # The throttle begins, and doubles twice.
    assert said["decisions"] == [["User:mallory", "THROTTLE", 20.0, "default"]] * 3
    assert said["metrics"] == [["User:alice", 1, 0], ["User:mallory", 21, 9]]
    assert len(said["quarantined"]) == 1
    assert said["throttled"] == [["User:mallory"]]

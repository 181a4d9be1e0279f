"""A process that looks like a Databricks runtime: session, catalog and secret.

What such a runtime gives is made here of open source Spark: settings of the session outside of our code, tables by
three-part names, and what databricks-sdk takes `dbutils` from, of which only a stand-in can be had.
"""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker.local.local_broker import LocalBroker
from tests.kits.broker_kit import new_topic
from tests.kits.databricks_kit import ROOT

LIMIT_S = 1800
_SQL = re.compile(r"^## Change a quota\n.*?^```sql\n(.*?)^```", re.MULTILINE | re.DOTALL)
_DBRUNTIME = '''
"""Stands for the runtime's own module, from which databricks-sdk takes `dbutils`: one secret, out of a file."""
import os
from types import SimpleNamespace


def get(scope, key):
    if f"{scope}/{key}" != os.environ["STAND_IN_SECRET_NAME"]:
        raise ValueError(f"Secret does not exist with scope: {scope} and key: {key}")
    with open(os.environ["STAND_IN_SECRET"], encoding="utf-8") as file:
        return file.read()


class UserNamespaceInitializer:
    @classmethod
    def getOrCreate(cls):
        return cls()

    def get_namespace_globals(self):
        return {"dbutils": SimpleNamespace(secrets=SimpleNamespace(get=get))}
'''


@dataclass(frozen=True)
class Runtime:
    """Processes that find all they need of Spark around them, as in a Databricks runtime.

    Attributes:
        root: Empty folder for its files and tables.
        jars: What a runtime has and pyspark has not: Delta and the Kafka source.
        python: Interpreter with the pyspark to use.
        version: The runtime's.
        settings: More settings of its session.
        secret: Scope and key of the one secret that is there.
        packages: Folders with packages that the interpreter has not.
    """

    root: Path
    jars: tuple[str, ...]
    python: str = sys.executable
    version: str = "17.3"
    settings: dict[str, str] = field(default_factory=dict)
    secret: str = "pid-quota/kafka-client"  # noqa: S105
    packages: tuple[str, ...] = (str(ROOT),)

    def prepared(self) -> "Runtime":
        settings = {
            "spark.master": "local[2]",
            "spark.jars": ",".join(self.jars),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            # The runtime's tables are Delta unless said otherwise.
            "spark.sql.sources.default": "delta",
            "spark.sql.warehouse.dir": str(self.root / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "2g",
            "spark.log.level": "WARN",
        }
        (self.root / "conf").mkdir(parents=True)
        lines = [f"{name} {value}\n" for name, value in (settings | self.settings).items()]
        (self.root / "conf" / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")
        (self.root / "modules").mkdir()
        (self.root / "modules" / "dbruntime.py").write_text(_DBRUNTIME, encoding="utf-8")
        (self.root / "secret").write_text("# The Kafka client's.\nsecurity.protocol=PLAINTEXT\n", encoding="utf-8")
        return self

    def environment(self) -> dict[str, str]:
        return os.environ | {
            "DATABRICKS_RUNTIME_VERSION": self.version,
            "SPARK_CONF_DIR": str(self.root / "conf"),
            "PYSPARK_PYTHON": self.python,
            "PYTHONPATH": os.pathsep.join([str(self.root / "modules"), *self.packages]),
            "STAND_IN_SECRET": str(self.root / "secret"),
            "STAND_IN_SECRET_NAME": self.secret,
        }

    def run(self, script: Path, *arguments: str, **environment: str) -> str:
        result = subprocess.run(
            [self.python, str(script), *arguments],
            cwd=self.root,
            env=self.environment() | environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout


def run_stream(runtime: Runtime, broker: LocalBroker, folder: Path, **environment: str) -> dict[str, Any]:
    """Run `runtime_run.py` on a topic of its own; return what its last line says."""
    topic, script = new_topic(broker, "produce-events", 2), ROOT / "tests" / "bundle" / "runtime_run.py"
    arguments = (broker.admin_servers, topic, str(folder / "checkpoint"), prepared_statements(folder))
    said: dict[str, Any] = json.loads(runtime.run(script, *arguments, **environment).splitlines()[-1])
    return said


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

"""A process that takes itself for one in a Databricks runtime: that session, that catalog, that secret; no Databricks.

What such a runtime gives is made here of open source Spark: settings of the session outside of our code, tables by
three-part names in an in-memory catalog, and `dbutils`, of which only a stand-in can be had.
"""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT_S = 1800
_DBUTILS = '''
"""Stands for the runtime's own module: one secret, out of a file."""
import os
from types import SimpleNamespace


def get(scope, key):
    assert f"{scope}/{key}" == "pid-quota/kafka-client"
    with open(os.environ["STAND_IN_SECRET"], encoding="utf-8") as file:
        return file.read()


dbutils = SimpleNamespace(secrets=SimpleNamespace(get=get))
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
    """

    root: Path
    jars: tuple[str, ...]
    python: str = sys.executable
    version: str = "17.3"
    settings: dict[str, str] = field(default_factory=dict)

    def prepared(self) -> "Runtime":
        """Write its files."""
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
        module = self.root / "modules" / "databricks" / "sdk" / "runtime"
        module.mkdir(parents=True)
        (module / "__init__.py").write_text(_DBUTILS, encoding="utf-8")
        (module.parent / "__init__.py").touch()
        shared = '__path__ = __import__("pkgutil").extend_path(__path__, __name__)\n'
        (module.parents[1] / "__init__.py").write_text(shared, encoding="utf-8")
        (self.root / "secret").write_text("# The Kafka client's.\nsecurity.protocol=PLAINTEXT\n", encoding="utf-8")
        return self

    def environment(self) -> dict[str, str]:
        """Of its processes."""
        return os.environ | {
            "DATABRICKS_RUNTIME_VERSION": self.version,
            "SPARK_CONF_DIR": str(self.root / "conf"),
            "PYSPARK_PYTHON": self.python,
            "PYTHONPATH": os.pathsep.join([str(self.root / "modules"), str(ROOT)]),
            "STAND_IN_SECRET": str(self.root / "secret"),
        }

    def run(self, script: Path, *arguments: str, **environment: str) -> str:
        """Run a script to its end, and return what it printed."""
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

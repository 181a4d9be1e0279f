"""Who may import whom (the table of ARCHITECTURE.md), read from the source."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "quota": set(),
    "state": {"quota"},
    "broker": {"quota"},
    "streaming": {"quota", "state"},
    "jobs": {"quota", "state", "broker", "streaming"},
    "sql": set(),
    "jvm": set(),
}
# What a pure package may use: it computes, and knows neither files nor processes, networks, clocks or engines.
PURE = {
    "__future__",
    "bisect",
    "collections",
    "dataclasses",
    "enum",
    "functools",
    "hashlib",
    "heapq",
    "itertools",
    "math",
    "operator",
    "struct",
    "threading",
    "typing",
    "zlib",
    "datasketches",
    "msgspec",
    "numpy",
    "rbloom",
}
OF_EACH_SPARK = {
    "pyspark": {"TaskContext", "accumulators"},
    "pyspark.errors": {"PySparkException"},
    "pyspark.sql": {"DataFrame", "SparkSession", "functions"},
    "pyspark.sql.functions": {"expr"},
    "pyspark.sql.streaming.listener": {"StreamingQueryListener"},
    "pyspark.sql.streaming.query": {"StreamingQuery"},
}
"""Looked up in 4.0 (a Databricks runtime's) and in ours: a name that only ours has ends the job there at once."""
SELF_CONTAINED = "manager_cache.py"
"""The KIP's own class stands alone in a process: it reads the clock and draws its salt itself."""
MODULES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def imports(path):
    """Top-level names of all modules that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield (node.module or "").partition(".")[0]


def eager_imports(path):
    """As `imports`, but only those that run when the module is imported."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def name(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_folder_imports_only_what_it_may(path):
    folder = path.relative_to(ROOT).parts[0]
    ours = set(imports(path)) & set(FOLDERS)
    assert ours <= FOLDERS[folder] | {folder}


@pytest.mark.parametrize("path", [path for path in MODULES if path.parts[-2] in ("quota", "state")], ids=name)
def test_the_rules_and_the_state_know_no_engine_file_or_clock(path):
    foreign = set(imports(path)) - PURE - set(FOLDERS)
    assert foreign <= ({"secrets", "time"} if path.name == SELF_CONTAINED else set())


def test_at_most_one_module_of_the_state_knows_the_clock():
    assert sum("time" in set(imports(path)) for path in (ROOT / "state").rglob("*.py")) <= 1


def test_the_tables_and_the_commands_start_without_spark_and_kafka():
    light = ["streaming/tables.py", "streaming/table_specs.py", "streaming/errors.py", "broker/errors.py"]
    light += ["jobs/cli.py", "jobs/console.py", "jobs/errors.py"]
    light += ["jobs/tables/query.py", "jobs/quotas/command.py", "jobs/quotas/table.py"]
    for path in light:
        assert not set(eager_imports(ROOT / path)) & {"pyspark", "delta", "confluent_kafka", "deltalake", "duckdb"}


def test_only_the_base_packages_are_imported_outside_spark():
    known = {"confluent_kafka", "datasketches", "deltalake", "duckdb", "msgspec", "numpy", "pandas", "pyarrow"}
    known |= {"kafka", "rbloom", "rich", "typer", "pyspark", "yaml", *FOLDERS, *sys.stdlib_module_names}
    known |= {"databricks", "prometheus_client", "sqlglot", "starlette", "textual", "typing_extensions", "uvicorn"}
    for path in MODULES:
        assert set(imports(path)) <= known, name(path)


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_names_of_pyspark_are_in_each_version_that_we_run_on(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "pyspark":
            assert {alias.name for alias in node.names} <= OF_EACH_SPARK.get(node.module, set())
        elif isinstance(node, ast.Import):
            assert "pyspark" not in {alias.name.partition(".")[0] for alias in node.names}


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_folder_is_a_package(folder):
    assert (ROOT / folder / "__init__.py").is_file()

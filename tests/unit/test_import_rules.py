"""Who may import whom (the table of ARCHITECTURE.md), read from the source."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS: dict[str, set[str]] = {
    "wire": set(),
    "quota": set(),
    "lifecycle": set(),
    "state": {"quota"},
    "tables": {"quota", "lifecycle"},
    "broker": {"wire", "quota", "lifecycle", "jvm"},
    "streaming": {"wire", "quota", "state", "tables"},
    "jobs": {"wire", "quota", "lifecycle", "state", "tables", "broker", "streaming", "jvm"},
    "sql": set(),
    "jvm": set(),
}
# What a room may import, beside itself and the files that all rooms of its package share. A file beside the rooms of a
# package is a room of its own.
ROOMS: dict[str, set[str]] = {
    "tables.store": {"quota", "tables"},
    "tables.quotas": {"quota", "tables", "tables.store"},
    "tables.query": {"quota", "lifecycle", "tables", "tables.store", "tables.quotas"},
    "broker.kafka": {"wire", "quota"},
    "broker.enforcement": {"wire", "quota", "broker.kafka"},
    "broker.occupancy": {"wire", "quota", "lifecycle", "broker.kafka"},
    "broker.doctor": {"wire", "quota", "broker.kafka", "broker.enforcement"},
    "broker.local": {"wire", "jvm", "broker.kafka"},
    "streaming.databricks": {"tables", "tables.store"},
    "streaming.failures": {"streaming.checkpoint"},
    "streaming.listener": set(),
    "streaming.environment": set(),
    "streaming.session": {"tables", "streaming.environment"},
    "streaming.triggers": set(),
    "streaming.checkpoint": {"quota", "state", "tables", "tables.store", "streaming.databricks"},
    "streaming.batch": {
        "quota",
        "tables",
        "tables.quotas",
        "tables.store",
        "streaming.checkpoint",
        "streaming.databricks",
    },
    "streaming.decode": {"wire", "quota", "state", "streaming.batch"},
    "streaming.operator": {"wire", "quota", "state", "tables", "streaming.batch"},
    "streaming.commit": {
        "quota",
        "tables",
        "tables.store",
        "streaming.batch",
        "streaming.checkpoint",
        "streaming.operator",
    },
    "streaming.pipeline": {
        "wire",
        "quota",
        "state",
        "tables",
        "streaming.batch",
        "streaming.checkpoint",
        "streaming.commit",
        "streaming.databricks",
        "streaming.decode",
        "streaming.operator",
        "streaming.failures",
        "streaming.triggers",
    },
    "streaming.worker_daemon": {"streaming.decode", "streaming.operator"},
    "streaming.reports": {
        "wire",
        "tables",
        "tables.store",
        "streaming.checkpoint",
        "streaming.commit",
        "streaming.failures",
        "streaming.operator",
        "streaming.pipeline",
        "streaming.triggers",
    },
}
# What a command may import of other rooms in `jobs/`; the packages below are open to all of them.
COMMANDS: dict[str, set[str]] = {
    "jobs.output": set(),
    "jobs.services": {"jobs.output"},
    "jobs.cli": {"jobs.output"},
    "jobs.__main__": {"jobs.cli"},
    "jobs.enforcement": {"jobs.output"},
    "jobs.lifecycle": {"jobs.output"},
    "jobs.occupancy": {"jobs.output"},
    "jobs.setup": {"jobs.output"},
    "jobs.stream": {"jobs.cli", "jobs.output", "jobs.services"},
    "jobs.tables": {"jobs.output", "jobs.services"},
    "jobs.top": {"jobs.output", "jobs.services"},
    "jobs.quotas": {"jobs.output"},
    "jobs.run": {"jobs.cli", "jobs.output", "jobs.services"},
    "jobs.web": {"jobs.output", "jobs.lifecycle", "jobs.services"},
    "jobs.demo": {"jobs.cli", "jobs.output", "jobs.run", "jobs.services", "jobs.stream", "jobs.top"},
}
SHARED = {
    "jobs",
    "jobs.errors",
    "jobs.kafka_login",
    "jobs.once",
    "jobs.options",
    "jobs.principals",
    "broker.errors",
    "broker.closing",
    "streaming.errors",
}
# What a pure package may use: it computes, and knows neither files nor processes, networks, clocks or engines.
PURE_PACKAGES = ("wire", "quota", "lifecycle", "state")
PURE = {
    "__future__",
    "bisect",
    "collections",
    "dataclasses",
    "datasketches",
    "enum",
    "functools",
    "hashlib",
    "heapq",
    "itertools",
    "math",
    "msgspec",
    "numpy",
    "operator",
    "rbloom",
    "re",
    "shlex",
    "statistics",
    "struct",
    "threading",
    "typing",
    "zlib",
}
SELF_CONTAINED = "manager_cache.py"
"""The KIP's own class stands alone in a process: it reads the clock and draws its salt itself."""
SPARK = {"pyspark", "delta"}
TAKES_A_SESSION = "tables/store/engines.py"
"""In a Databricks runtime the session that is there answers SQL; it is asked for when that is so, never before."""
MODULES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


KNOWN = {dotted(path): path for path in MODULES}


def imported(path: Path) -> Iterator[str]:
    """All modules that a file imports, also inside functions: ours by their full name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in KNOWN else node.module or ""


def imports(path: Path) -> set[str]:
    """Top-level names of all modules that a file imports, also inside functions."""
    return {each.partition(".")[0] for each in imported(path)}


def eager_imports(path: Path) -> Iterator[str]:
    """As `imports`, but only those that run when the module is imported."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def room(module: str) -> str:
    """The room of one of our modules: its folder below a package, or itself if it lies beside the rooms.

    Files beside the rooms of `tables` are what all of its rooms stand on, and count as one.
    """
    parts = module.split(".")
    if len(parts) == 1 or KNOWN[module].name == "__init__.py":
        return module
    if len(parts) > 2:
        return "tables" if parts[1] == "schema" else ".".join(parts[:-1])
    return module if parts[0] in ("broker", "streaming", "jobs") else parts[0]


def circle(edges: dict[str, set[str]]) -> list[str] | None:
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return list(error.args[1])
    return None


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_folder_imports_only_what_it_may(path: Path) -> None:
    folder = path.relative_to(ROOT).parts[0]
    ours = imports(path) & set(FOLDERS)
    assert ours <= FOLDERS[folder] | {folder}


@pytest.mark.parametrize("path", [path for path in MODULES if room(dotted(path)) in ROOMS], ids=name)
def test_a_room_imports_only_what_it_may(path: Path) -> None:
    own = room(dotted(path))
    ours = {room(module) for module in imported(path) if module in KNOWN}
    assert ours <= ROOMS[own] | SHARED | {own}


@pytest.mark.parametrize("path", [path for path in MODULES if room(dotted(path)) in COMMANDS], ids=name)
def test_a_command_imports_only_the_commands_that_it_may(path: Path) -> None:
    own = room(dotted(path))
    ours = {room(module) for module in imported(path) if module in KNOWN and module.startswith("jobs.")}
    assert ours <= COMMANDS[own] | SHARED | {own}


def test_every_room_is_in_the_table() -> None:
    rooms = {room(module) for module in KNOWN if module.startswith(("tables.", "broker.", "streaming.", "jobs."))}
    assert rooms - SHARED - set(FOLDERS) - {"tables.schema"} == {*ROOMS, *COMMANDS}


def test_modules_import_in_no_circle() -> None:
    assert (
        circle({module: {each for each in imported(path) if each in KNOWN} for module, path in KNOWN.items()}) is None
    )


def test_rooms_import_in_no_circle() -> None:
    edges: dict[str, set[str]] = {}
    for module, path in KNOWN.items():
        ours = {room(each) for each in imported(path) if each in KNOWN}
        edges.setdefault(room(module), set()).update(ours - {room(module)})
    assert circle(edges) is None


@pytest.mark.parametrize("path", [path for path in MODULES if dotted(path).split(".")[0] in PURE_PACKAGES], ids=name)
def test_the_pure_packages_know_no_engine_file_or_clock(path: Path) -> None:
    foreign = imports(path) - PURE - set(FOLDERS)
    assert foreign <= ({"secrets", "time"} if path.name == SELF_CONTAINED else set())


@pytest.mark.parametrize("path", [path for path in MODULES if dotted(path).split(".")[0] == "tables"], ids=name)
def test_the_tables_have_no_spark(path: Path) -> None:
    assert not imports(path) & SPARK or name(path) == TAKES_A_SESSION
    assert not set(eager_imports(path)) & {*SPARK, "confluent_kafka", "deltalake", "duckdb"}


def test_holds_are_planned_without_a_client_of_kafka() -> None:
    code = "import sys, broker.enforcement.enforcer; print({'kafka', 'confluent_kafka'} & {*sys.modules})"
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout == "set()\n"


def test_only_the_base_packages_are_imported_outside_spark() -> None:
    known = {"confluent_kafka", "datasketches", "deltalake", "duckdb", "msgspec", "numpy", "pandas", "pyarrow"}
    known |= {"kafka", "rbloom", "rich", "typer", "pyspark", "yaml", *FOLDERS, *sys.stdlib_module_names}
    known |= {"databricks", "prometheus_client", "sqlglot", "starlette", "tenacity", "uvicorn"}
    known |= {"typing_extensions"}
    for path in MODULES:
        assert imports(path) <= known, name(path)


@pytest.mark.parametrize("folder", sorted({str(path.parent.relative_to(ROOT)) for path in MODULES}))
def test_every_folder_is_a_package(folder: str) -> None:
    assert (ROOT / folder / "__init__.py").is_file()

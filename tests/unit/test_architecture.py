"""The way of an event in ARCHITECTURE.md: its functions exist, and no file but the pipeline is visited twice."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
STEP = re.compile(r"`([\w/]+\.py):([\w.]+)`")
PIPELINE = "streaming/pipeline.py"


def defined(file: Path) -> set[str]:
    """Return the functions and classes of a file, and the methods as `Class.method`."""
    found = set[str]()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
            methods = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.FunctionDef)]
            found |= {f"{node.name}.{each.name}" for each in methods}
    return found


def test_the_way_of_an_event_names_functions_that_exist_and_goes_through_no_file_twice() -> None:
    way = STEP.findall((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    files = [file for file, _ in way if file != PIPELINE]

    assert len(way) >= 15
    assert [f"{file}:{name}" for file, name in way if name not in defined(ROOT / file)] == []
    assert len(files) == len(set(files))

"""The pages: their links, the files they name, and the tables that repeat what the code says."""

import ast
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from jobs.cli import application, load_command
from tests.kits.page_kit import commands_in, parse

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
FOLDERS = (
    "wire|quota|lifecycle|state|tables|broker|streaming|jobs|jvm|plugin|sql|bench|tests|docs|resources|requirements"
)
OF_TESTS = "unit|attack|fault|fuzz|stream|bundle"
NAMED_PATH = re.compile(rf"(?<![\w./$-])(?:{FOLDERS}|{OF_TESTS})/[\w./*-]*[\w*]\.[a-z]\w*")
SOURCES = sorted(
    file
    for folder in FOLDERS.split("|")
    for kind in ("py", "sql", "java", "yml", "xml")
    for file in (ROOT / folder).rglob(f"*.{kind}")
)


def text_of(page: Path) -> str:
    """Return the page without its code blocks, in which a # begins a comment."""
    return re.sub(r"^\s*```.*?^\s*```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def prose_of(source: Path) -> str:
    """Return the docstrings and comments of Python; all of another file, where a path is rarely anything else."""
    text = source.read_text(encoding="utf-8")
    if source.suffix != ".py":
        return text
    values = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr)]
    docstrings = [value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]
    return "\n".join(docstrings + re.findall(r"(?:^|\s)#.*$", text, re.MULTILINE))


def missing(text: str) -> list[str]:
    """Return the paths of ours that a text names, by `*` perhaps, and that do not exist."""
    places = ROOT, ROOT / "tests"
    return [name for name in NAMED_PATH.findall(text) if not any(any(place.glob(name)) for place in places)]


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the page's headings."""
    headings = re.findall(r"^#+ +(.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def relative_links(page: Path) -> list[str]:
    found = re.findall(r"(?:\]\(|<img src=\")([^)\"\s]+)", text_of(page))
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def told_options(heading: str) -> dict[str, str]:
    """Return the options that the list below a heading of the reference names, with their defaults in parentheses."""
    section = (DOCS / "reference.md").read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    named = " ".join(re.findall(r"^- (.*?):", section, re.MULTILINE))
    return {name: default.strip("`") for name, default in re.findall(r"`(--[\w-]+)`(?: \((.*?)\))?", named)}


def options_and_defaults(command: str) -> dict[str, str]:
    """Return the options of a command, with their defaults as the reference writes them."""
    found: dict[str, str] = {}
    for each in load_command(command).params:
        is_plain = isinstance(each.default, int | float | str) and not isinstance(each.default, bool)
        default = f"{each.default:g}" if isinstance(each.default, float) else str(each.default)
        found |= dict.fromkeys(each.opts, default if is_plain else "")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file_and_heading(page: Path) -> None:
    broken = []
    for link in relative_links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    assert missing(text_of(page)) == []


def test_every_file_that_a_docstring_or_comment_names_exists() -> None:
    prose = {str(source.relative_to(ROOT)): prose_of(source) for source in SOURCES}
    assert sum(len(NAMED_PATH.findall(text)) for text in prose.values()) > 30
    assert {source: names for source, text in prose.items() if (names := missing(text))} == {}


def test_every_function_that_the_table_of_the_kip_names_exists() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w.]+)` in `((?:quota|state)/\w+)\.py`", page)

    assert len(named) > 25
    for name, module in named:
        found: Any = importlib.import_module(module.replace("/", "."))
        for part in name.split("."):
            found = getattr(found, part)
        assert callable(found), name


def test_every_test_that_a_page_names_exists() -> None:
    sources = [file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py")]
    defined = {name for source in sources for name in re.findall(r"^ *def (test_\w+)", source, re.MULTILINE)}
    named = {name for page in PAGES for name in re.findall(r"[`:](test_\w+)`", text_of(page))}
    assert named - defined == set()


def test_the_index_leads_to_every_page() -> None:
    index = DOCS / "index.md"
    linked = {(DOCS / link).resolve() for link in relative_links(index)}
    assert set(DOCS.rglob("*.md")) - {index} <= linked


def test_every_picture_is_shown_or_linked() -> None:
    used = {(page.parent / link.partition("#")[0]).resolve() for page in PAGES for link in relative_links(page)}
    assert {path for path in (DOCS / "img").iterdir() if path not in used} == set()


def test_the_reference_lists_every_option_with_its_default() -> None:
    run, stream, console = map(options_and_defaults, ("run", "stream", "console"))
    own = {name: default for name, default in stream.items() if name not in run}
    for heading, options in (
        ("Options of `pid-quota run`", run),
        ("Options of the stream", own),
        ("Options of the console", console),
    ):
        told = told_options(heading)
        assert told.keys() == options.keys()
        assert {name: default for name, default in options.items() if default and told[name] != default} == {}


def named_options() -> list[tuple[str, str]]:
    """Return each call of a command that the pages show: the command's words, and an option."""
    found = set()
    for page in PAGES:
        text = re.sub(r"\\\n\s*", " ", page.read_text(encoding="utf-8"))
        for call in re.findall(r"pid-quota ([a-z-]+(?: [^`\n|#]*)?)", text):
            words = call.split()
            found |= {(words[0], word.split("=")[0].rstrip(".,;:)'\"")) for word in words if word.startswith("--")}
    return sorted(found)


def options_of(command: Any) -> Iterator[str]:
    """Return the options of a command and its sub-commands."""
    for each in command.params:
        yield from (*each.opts, *each.secondary_opts)
    for each in getattr(command, "commands", {}).values():
        yield from options_of(each)


def test_every_option_that_a_page_shows_exists() -> None:
    names = typer.main.get_group(application()).commands
    known = {name: {"--help", "--debug", *options_of(load_command(name))} for name in names}
    shown = [(command, option) for command, option in named_options() if command in known]
    assert len(shown) > 35
    assert [(command, option) for command, option in shown if option not in known[command]] == []


def test_the_command_line_takes_every_command_that_a_code_block_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PID_QUOTA_TABLES", "/data/pid-quota/tables")
    monkeypatch.setenv("PID_QUOTA_BOOTSTRAP_SERVER", "kafka:9092")
    names = typer.main.get_group(application()).commands
    shown = [(page.name, words) for page in PAGES for words in commands_in(page.read_text(encoding="utf-8"))]
    shown = [(page, words) for page, words in shown if words[0] in names]
    refused = []
    for page, words in shown:
        try:
            parse(words)
        except Exception as error:
            refused.append((page, words, str(error)))
    assert refused == []
    assert len(shown) > 30


def test_the_page_of_the_plugin_lists_each_property_with_its_default() -> None:
    page = (DOCS / "plugin.md").read_text(encoding="utf-8").split("## Properties\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `pid\.quota\.([\w.]+)` \| (\S*)", page, re.MULTILINE)
    source = "".join(each.read_text(encoding="utf-8") for each in (ROOT / "plugin/pidquota").glob("*.java"))
    assert {name for name, _ in rows} == set(re.findall(r'PREFIX \+ "([\w.]+\w)"', source))

    written = re.findall(r'number\(PREFIX \+ "([\w.]+)", ([\d_]+)L?(?: << (\d+))?,', source)
    defaults = {name: int(number) << int(shift or 0) for name, number, shift in written}
    assert {name: int(default) for name, default in rows if default.isdecimal()} == defaults


def test_the_page_of_the_plugin_lists_the_versions_of_kafka_that_a_test_runs_it_on() -> None:
    page = (DOCS / "plugin.md").read_text(encoding="utf-8").split("## Versions of Kafka\n")[1]
    source = (ROOT / "tests/broker/test_plugin_versions.py").read_text(encoding="utf-8")
    (tested,) = re.findall(r"^VERSIONS = (\[.*\])$", source, re.MULTILINE)
    rows = re.findall(r"^\| (\d[\d., ]+) \|", page, re.MULTILINE)
    assert [version for row in rows for version in row.split(", ")] == json.loads(tested)

"""Writes `docs/options.md`: every option of every command, with its default, from the command line itself.

`python -m jobs.options_page > docs/options.md`, or `make options`.
"""

import re
from collections.abc import Iterator
from typing import Any

import typer

from jobs.cli import application, load_command

_HEAD = """\
# Options

*For whoever writes a service's command line: every option of every command, with its default.*

Made by `make options` from the commands themselves; `pid-quota COMMAND --help` says the same.
[reference.md](reference.md) says more of those of the stream.
"""
_DEFAULT_IN_HELP = re.compile(r"\s*\[default: (.+?)\]")


def page() -> str:
    """Return the page."""
    return "\n".join((_HEAD, *_sections()))


def _sections() -> Iterator[str]:
    for name, summary in _commands(typer.main.get_command(application())).items():
        for words, each in _with_subcommands([name], load_command(name)):
            rows = [row for parameter in each.params if (row := _row(parameter))]
            if rows:
                head = (
                    f"## `pid-quota {' '.join(words)}`\n\n{(each.help or summary.help or '').strip().splitlines()[0]}\n"
                )
                yield "\n".join((head, "| option | default | meaning |", "|---|---|---|", *rows, ""))


def _with_subcommands(words: list[str], command: Any) -> Iterator[tuple[list[str], Any]]:
    yield words, command
    for name, each in _commands(command).items():
        yield from _with_subcommands([*words, name], each)


def _commands(command: Any) -> dict[str, Any]:
    found: dict[str, Any] = getattr(command, "commands", {})
    return found


def _row(parameter: Any) -> str | None:
    if getattr(parameter, "hidden", False):
        return None
    is_option = parameter.param_type_name == "option"
    names = [*parameter.opts, *parameter.secondary_opts] if is_option else [parameter.metavar or parameter.name.upper()]
    text = parameter.help or ""
    in_help = _DEFAULT_IN_HELP.search(text)
    default = in_help[1] if in_help else _default(parameter)
    variable = f" (`{parameter.envvar}`)" if isinstance(parameter.envvar, str) else ""
    cells = (", ".join(f"`{name}`" for name in names) + variable, default, _DEFAULT_IN_HELP.sub("", text))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(parameter: Any) -> str:
    told = getattr(parameter, "show_default", None)
    if isinstance(told, str):
        return told
    default = parameter.default
    if parameter.required:
        return "required"
    if default in (None, ""):
        return ""
    if isinstance(default, bool):
        return "on" if default else "off"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


if __name__ == "__main__":
    print(page(), end="")

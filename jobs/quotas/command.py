"""`pid-quota quotas`: sets, deletes and describes quotas, with the options of `kafka-configs.sh`."""

import getpass
import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer

from jobs.errors import QuotaCommandError
from jobs.quotas.file import read_quotas
from jobs.tables.sql_command import TablesOption
from jobs.tables_out import CsvOption, Form, JsonOption, form, show
from jobs.terminal import one_line, output, printable
from jobs.text_tables import TextTable
from quota.words import plural
from tables.catalog.answer import Answer
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import delete_quota, entity_words, judged_quotas, set_quota, set_quotas

_KEY = "producer_ids_rate"
_COLUMNS = ("entity_type", "entity_name", _KEY, "updated_at", "updated_by")


def quotas(
    tables: TablesOption,
    alter: Annotated[bool, typer.Option("--alter", help="Change a quota.")] = False,
    describe: Annotated[bool, typer.Option("--describe", help="Show quotas.")] = False,
    import_file: Annotated[
        Path | None, typer.Option("--import", help="Set the quotas of a .csv or .yaml file, all or nothing.")
    ] = None,
    add_config: Annotated[
        str | None, typer.Option(help="The quota to set: producer_ids_rate=50, new producer ids per window.")
    ] = None,
    delete_config: Annotated[str | None, typer.Option(help="The quota to delete: producer_ids_rate.")] = None,
    entity_type: Annotated[str | None, typer.Option(help="users; without --entity-name the default quota.")] = None,
    entity_name: Annotated[str | None, typer.Option(help="User name, without 'User:'.")] = None,
    entity_default: Annotated[bool, typer.Option("--entity-default", help="The default quota.")] = False,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    updated_by: Annotated[str | None, typer.Option(help="Who sets it. [default: the system's user name]")] = None,
) -> None:
    """Set, delete and describe the quotas of users and the default."""
    if [alter, describe, import_file is not None].count(True) != 1:
        _usage("give one of --alter, --describe and --import")
    wanted = form(as_json=as_json, as_csv=as_csv)
    if wanted == "csv" and not describe:
        _usage("--csv goes with --describe")
    now = datetime.now(timezone.utc)
    who = updated_by or getpass.getuser()
    if import_file is not None:
        lines = read_quotas(import_file)
        set_quotas(tables, [QuotaEntry(line.entity_name, line.producer_ids_rate, now, who) for line in lines])
        if as_json:
            typer.echo(json.dumps({"done": "set", "entities": len(lines)}))
        else:
            output().print(printable(f"set: {_KEY} of {plural(len(lines), 'entity', 'entities')}"), soft_wrap=True)
        return
    _check_entity(entity_type, entity_name, entity_default)
    if describe:
        if add_config is not None or delete_config is not None:
            _usage("--add-config and --delete-config go with --alter")
        _describe(tables, entity_name, entity_default, wanted)
        return
    if entity_name is None and not entity_default and entity_type is None:
        _usage("--alter needs --entity-name NAME, or --entity-default (or --entity-type users alone) for the default")
    if (add_config is None) == (delete_config is None):
        _usage("--alter needs one of --add-config and --delete-config")
    if add_config is not None:
        rate = _parse_rate(add_config)
        set_quota(tables, QuotaEntry(entity_name, rate, now, who))
        _say(as_json, "set", entity_name, rate)
    else:
        _check_key(delete_config or "")
        delete_quota(tables, entity_name)
        _say(as_json, "deleted", entity_name, None)


def _check_entity(entity_type: str | None, entity_name: str | None, entity_default: bool) -> None:
    if entity_type not in (None, "users", "user"):
        _usage(f"--entity-type {entity_type!r} is unknown: only users have a {_KEY}")
    if entity_name is None:
        return
    if entity_default:
        _usage("give one of --entity-name and --entity-default")
    if not entity_name or entity_name == "<default>":
        _usage(f"--entity-name {entity_name!r} is no user: for the default quota use --entity-default")
    if entity_name.startswith("User:"):
        bare = entity_name.removeprefix("User:")
        _usage(f"--entity-name {entity_name!r} is a principal: quotas take the bare name, {bare!r}")
    try:
        entity_name.encode("utf-8")
    except UnicodeEncodeError:
        _usage("--entity-name is not valid UTF-8: check the terminal's encoding")


def _parse_rate(text: str) -> float:
    key, equals, value = text.partition("=")
    _check_key(key)
    try:
        # kafka-configs.sh prints values in brackets, and people copy them.
        return float(value.strip().removeprefix("[").removesuffix("]"))
    except ValueError:
        given = f"{value!r} is not a number" if equals else "there is no value"
        msg = f"--add-config {text!r}: {given}. Write {_KEY}=50, say"
        raise QuotaCommandError(msg) from None


def _check_key(key: str) -> None:
    if key.strip() != _KEY:
        msg = f"quota {key.strip()!r} is unknown. The one quota here is {_KEY}"
        raise QuotaCommandError(msg)


def _describe(tables: str, entity_name: str | None, entity_default: bool, form_wanted: Form) -> None:
    entries, faults = judged_quotas(tables)
    for fault in faults:
        typer.echo(f"warning: {one_line(fault)}", err=True)
    wanted = [entry for entry in entries if entity_name == entry.entity_name or not (entity_name or entity_default)]
    if not wanted and (entity_name or entity_default):
        default = next((entry.producer_ids_rate for entry in entries if entry.entity_name is None), None)
        falls_to = "none holds" if default is None or entity_default else f"the default holds: {default:g} per window"
        msg = f"{entity_words(entity_name)} has no quota ({falls_to}). Set one with --alter --add-config {_KEY}=50"
        raise QuotaCommandError(msg)
    if form_wanted != "table":
        records = [_record(entry) for entry in wanted]
        show(Answer(_COLUMNS, tuple(tuple(record[name] for name in _COLUMNS) for record in records)), form_wanted)
        return
    rows = [
        (entity_words(each.entity_name), each.producer_ids_rate, each.updated_at, each.updated_by) for each in wanted
    ]
    output().print(TextTable(("entity", _KEY, "updated_at", "updated_by"), rows) if rows else "no quotas are set")


def _record(entry: QuotaEntry) -> dict[str, object]:
    return {
        "entity_type": "user",
        "entity_name": entry.entity_name,
        _KEY: entry.producer_ids_rate,
        "updated_at": entry.updated_at.isoformat(),
        "updated_by": entry.updated_by,
    }


def _say(as_json: bool, done: str, entity_name: str | None, rate: float | None) -> None:
    if as_json:
        record = {"done": done, "entity_type": "user", "entity_name": entity_name, _KEY: rate}
        typer.echo(json.dumps(record, ensure_ascii=False))
        return
    value = "" if rate is None else f" = {rate:.15g} new producer ids per window"
    output().print(printable(f"{done}: {_KEY} of {entity_words(entity_name)}{value}"))


def _usage(message: str) -> None:
    raise typer.BadParameter(message)

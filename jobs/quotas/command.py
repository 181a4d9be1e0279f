"""`pid-quota quotas`: sets, deletes and describes quotas, with the options of `kafka-configs.sh`."""

import getpass
import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

import typer

from jobs.errors import QuotaCommandError
from jobs.quotas.changes import Plan
from jobs.quotas.file import read_quotas, write_quotas
from jobs.tables.sql_command import TablesOption
from jobs.tables_out import CsvOption, Form, JsonOption, form, show
from jobs.terminal import one_line, output, printable
from jobs.text_tables import TextTable
from quota.words import plural
from tables.catalog.answer import Answer
from tables.delta import is_catalog, open_table
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import delete_quota, entity_words, judged_quotas, set_quota, set_quotas

WOULD_CHANGE = 3
"""Exit code of a dry run that would change something."""

_KEY = "producer_ids_rate"
_COLUMNS = ("entity_type", "entity_name", _KEY, "updated_at", "updated_by")


def quotas(
    tables: TablesOption,
    alter: Annotated[bool, typer.Option("--alter", help="Change a quota.")] = False,
    describe: Annotated[bool, typer.Option("--describe", help="Show quotas.")] = False,
    import_file: Annotated[
        Path | None, typer.Option("--import", help="Set the quotas of a .csv, .yaml or .json file, all or nothing.")
    ] = None,
    export_file: Annotated[
        Path | None, typer.Option("--export", help="Write the quotas to such a file; importing it changes nothing.")
    ] = None,
    prune: Annotated[bool, typer.Option("--prune", help="With --import: delete the quotas that the file lacks.")] = (
        False
    ),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --import: only show what would change; exit code 3 if anything.")
    ] = False,
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
    if [alter, describe, import_file is not None, export_file is not None].count(True) != 1:
        _usage("give one of --alter, --describe, --import and --export")
    wanted = form(as_json=as_json, as_csv=as_csv)
    for option, given, goes_with in (
        ("--prune", prune, import_file is not None),
        ("--dry-run", dry_run, import_file is not None),
        ("--csv", as_csv, describe),
    ):
        if given and not goes_with:
            _usage(f"{option} goes with {'--describe' if option == '--csv' else '--import'}")
    now = datetime.now(timezone.utc)
    who = updated_by or getpass.getuser()
    if export_file is not None:
        _export(tables, export_file, as_json)
        return
    if import_file is not None:
        _import(tables, import_file, now, who, as_json, prune=prune, dry_run=dry_run)
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
        if not is_catalog(tables):
            # Where none are, --tables is likelier mistyped than new.
            open_table(tables, "producer_id_quotas")
        set_quota(tables, QuotaEntry(entity_name, rate, now, who))
        _say(as_json, "set", entity_name, rate)
    else:
        _check_key(delete_config or "")
        delete_quota(tables, entity_name)
        _say(as_json, "deleted", entity_name, None)


def _judged(tables: str) -> list[QuotaEntry]:
    """Return the quotas in force; warn of rows that can be none."""
    entries, faults = judged_quotas(tables)
    for fault in faults:
        typer.echo(f"warning: {one_line(fault)}", err=True)
    return entries


def _export(tables: str, file: Path, as_json: bool) -> None:
    entries = _judged(tables)
    write_quotas(file, entries)
    _say_done(as_json, {"done": "exported", "entities": len(entries)}, f"exported: {plural(len(entries), 'quota')}")


def _import(tables: str, file: Path, now: datetime, who: str, as_json: bool, *, prune: bool, dry_run: bool) -> None:
    plan = Plan.of(_judged(tables), read_quotas(file), prune=prune)
    if not dry_run:
        _apply(tables, plan, now, who)
    _say_done(as_json, {"done": "dry run" if dry_run else "set", **plan.record()}, *plan.lines(dry_run=dry_run))
    if dry_run and plan.changes:
        raise typer.Exit(WOULD_CHANGE)


def _apply(tables: str, plan: Plan, now: datetime, who: str) -> None:
    wanted = [(change.entity_name, change.after) for change in plan.changes]
    entries = [QuotaEntry(name, rate, now, who) for name, rate in wanted if rate is not None]
    if wanted:
        set_quotas(tables, entries, [name for name, rate in wanted if rate is None])


def _say_done(as_json: bool, record: dict[str, Any], *lines: str) -> None:
    if as_json:
        typer.echo(json.dumps(record, ensure_ascii=False))
        return
    for line in lines:
        output().print(printable(line), soft_wrap=True)


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
    entries = _judged(tables)
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

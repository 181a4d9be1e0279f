"""The command `pid-quota quotas`."""

import getpass
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

import typer

from jobs.errors import JobError
from jobs.options import JsonOption, TablesOption
from jobs.output.human import plural
from jobs.output.json_out import print_json
from jobs.output.tables_out import Form, form, show
from jobs.output.terminal import one_line, output, printable
from jobs.output.text_tables import TextTable
from jobs.quotas import altering
from jobs.quotas.changes import ImportPlan
from jobs.quotas.file import read_quotas, write_quotas
from jobs.quotas.names import QuotaNames
from jobs.quotas.suggest import suggest as suggest_quotas
from quota.allowance import BURST, RATE, Allowance
from quota.errors import InvalidQuotaError
from tables.quotas.quota_entry import QuotaEntry, entity_words
from tables.quotas.quota_table import set_quotas, validated_quotas
from tables.store.values import Answer

WOULD_CHANGE = 3
"""Exit code of a dry run that would change something."""

_COLUMNS = ("entity_type", "entity_name", RATE, BURST, "updated_at", "updated_by")


def quotas(
    tables: TablesOption,
    alter: Annotated[bool, typer.Option("--alter", help="Change a quota.")] = False,
    describe: Annotated[bool, typer.Option("--describe", help="Show quotas.")] = False,
    suggest: Annotated[
        bool,
        typer.Option(
            "--suggest",
            help="Suggest quotas from history; with --entity-name, the command that sets that user's.",
        ),
    ] = False,
    import_file: Annotated[
        Path | None, typer.Option("--import", help="Set the quotas of a .csv, .yaml or .json file, all or none.")
    ] = None,
    export_file: Annotated[
        Path | None,
        typer.Option("--export", help="Write the quotas, or with --suggest the suggestions, to such a file."),
    ] = None,
    prune: Annotated[bool, typer.Option("--prune", help="With --import: delete the quotas that the file lacks.")] = (
        False
    ),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --import: only show changes; exit code 3 if there are any.")
    ] = False,
    add_config: Annotated[
        str | None,
        typer.Option(
            help="The quota to set: producer_ids_rate=50, new producer ids per window; "
            "producer_ids_rate=10,producer_ids_burst=600 lets 600 pass at once."
        ),
    ] = None,
    delete_config: Annotated[
        str | None, typer.Option(help="What to delete: producer_ids_rate (the whole quota) or producer_ids_burst.")
    ] = None,
    entity_type: Annotated[
        str | None, typer.Option(help="Must be users. Without --entity-name, it selects the default quota.")
    ] = None,
    entity_name: Annotated[str | None, typer.Option(help="User name, without 'User:'.")] = None,
    entity_default: Annotated[bool, typer.Option("--entity-default", help="The default quota.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Set, delete, describe and suggest the quotas of users and the default quota."""
    _check_action(alter, describe, suggest, import_file is not None, export_file is not None and not suggest)
    for option, given in (("--prune", prune), ("--dry-run", dry_run)):
        if given and import_file is None:
            _fail(f"{option} needs --import")
    if (add_config is not None or delete_config is not None) and not alter:
        _fail("--add-config and --delete-config need --alter")
    if (entity_name is not None or entity_default) and not (alter or describe or suggest):
        _fail("--entity-name and --entity-default need --alter, --describe or --suggest")
    now, who = datetime.now(timezone.utc), getpass.getuser()
    _check_entity(tables, entity_type, entity_name, entity_default, now)
    if suggest:
        suggest_quotas(tables, entity_name, export_file, form(as_json=as_json))
    elif export_file is not None:
        entries = _validated(tables)
        write_quotas(export_file, entries)
        count = len(entries)
        _print_done(as_json, {"done": "exported", "entities": count}, f"exported: {plural(count, 'quota')}")
    elif import_file is not None:
        _import(tables, import_file, now, f"{who}: {import_file}", as_json, prune=prune, dry_run=dry_run)
    elif describe:
        _describe(tables, entity_name, entity_default, form(as_json=as_json))
    else:
        if entity_name is None and not entity_default:
            _fail("--alter needs --entity-name NAME, or --entity-default for the default quota")
        _alter(tables, entity_name, add_config, delete_config, now, who, as_json)


def _check_action(*chosen: bool) -> None:
    if chosen.count(True) != 1:
        _fail("give one of --alter, --describe, --suggest, --import and --export")


def _alter(
    tables: str,
    entity_name: str | None,
    add_config: str | None,
    delete_config: str | None,
    now: datetime,
    who: str,
    as_json: bool,
) -> None:
    if (add_config is None) == (delete_config is None):
        _fail("--alter needs one of --add-config and --delete-config")
    if add_config is not None:
        _print_change(as_json, "set", entity_name, altering.add(tables, entity_name, add_config, now, who))
    else:
        left = altering.delete(tables, entity_name, delete_config or "", now, who)
        _print_change(as_json, "deleted", entity_name, left)


def _validated(tables: str) -> list[QuotaEntry]:
    entries, faults = validated_quotas(tables)
    for fault in faults:
        typer.echo(f"warning: {one_line(fault)}", err=True)
    return entries


def _import(tables: str, file: Path, now: datetime, who: str, as_json: bool, *, prune: bool, dry_run: bool) -> None:
    plan = ImportPlan.compare(_validated(tables), read_quotas(file, QuotaNames(tables, now).check), prune=prune)
    if plan.changes and not dry_run:
        wanted = [(change.entity_name, change.after) for change in plan.changes]
        entries = [
            QuotaEntry.from_allowance(name, allowance, now, who) for name, allowance in wanted if allowance is not None
        ]
        set_quotas(tables, entries, [name for name, allowance in wanted if allowance is None])
    _print_done(as_json, {"done": "dry run" if dry_run else "set", **plan.record()}, *plan.lines(dry_run=dry_run))
    if dry_run and plan.changes:
        raise typer.Exit(WOULD_CHANGE)


def _print_done(as_json: bool, record: dict[str, Any], *lines: str) -> None:
    if as_json:
        print_json(record)
        return
    for line in lines:
        output().print(printable(line), soft_wrap=True)


def _check_entity(
    tables: str, entity_type: str | None, entity_name: str | None, entity_default: bool, now: datetime
) -> None:
    if entity_type not in (None, "users", "user"):
        _fail(f"--entity-type {entity_type!r} is unknown: only users have a {RATE}")
    if entity_name is None:
        return
    if entity_default:
        _fail("give one of --entity-name and --entity-default")
    try:
        QuotaNames(tables, now).check(entity_name)
    except InvalidQuotaError as error:
        _fail(f"--entity-name {error}")


def _describe(tables: str, entity_name: str | None, entity_default: bool, form_wanted: Form) -> None:
    entries = _validated(tables)
    wanted = [entry for entry in entries if entity_name == entry.entity_name or not (entity_name or entity_default)]
    if not wanted and (entity_name or entity_default):
        default = next((entry.allowance for entry in entries if entry.entity_name is None), None)
        falls_to = (
            "no quota is in force"
            if default is None or entity_default
            else f"the default is in force: {default} per window"
        )
        msg = f"{entity_words(entity_name)} has no quota ({falls_to}). Set one with --alter --add-config {RATE}=50"
        raise JobError(msg)
    if form_wanted != "table":
        show(Answer(_COLUMNS, tuple(("user", each.entity_name, *_values(each)) for each in wanted)), form_wanted)
        return
    rows = [(entity_words(each.entity_name), *_values(each)) for each in wanted]
    output().print(TextTable(("entity", RATE, "burst", *_COLUMNS[4:]), rows) if rows else "no quotas are set")


def _values(entry: QuotaEntry) -> tuple[object, ...]:
    return entry.producer_ids_rate, entry.producer_ids_burst, entry.updated_at, entry.updated_by


def _print_change(as_json: bool, done: str, entity_name: str | None, allowance: Allowance | None) -> None:
    numbers = {RATE: allowance and allowance.producer_ids_rate, BURST: allowance and allowance.producer_ids_burst}
    what = RATE if done == "set" or allowance is None else BURST
    line = f"{done}: {what} of {entity_words(entity_name)}"
    if allowance is not None:
        line += "; left:" if what == BURST else " ="
        line += f" {allowance.producer_ids_rate:.15g} new producer ids per window"
        if allowance.producer_ids_burst is not None:
            line += f", {allowance.producer_ids_burst:.15g} at once"
    _print_done(as_json, {"done": done, "entity_type": "user", "entity_name": entity_name, **numbers}, line)


def _fail(message: str) -> None:
    raise typer.BadParameter(message)

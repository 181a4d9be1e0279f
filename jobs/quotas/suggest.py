"""`pid-quota quotas --suggest`: quotas from history."""

from dataclasses import replace
from pathlib import Path

from jobs.errors import JobError
from jobs.output.shell_commands import set_quota
from jobs.output.tables_out import Form, show
from jobs.output.terminal import one_line, output, printable
from jobs.quotas.file import write_quotas
from lifecycle.churn import Churn
from quota.principals import entity_name as entity_name_of
from quota.typed import typed
from tables.query.suggestions import Suggestion, as_entries, suggestions
from tables.store.values import Answer

_COLUMNS = (
    *("principal", "windows", "most_pids", "quota_now", "burst_now"),
    *("suggested", "burst", "looks_like", "once_mended"),
)


def suggest(tables: str, entity_name: str | None, export_file: Path | None, wanted: Form) -> None:
    """Print or export a quota per user, or print the command that sets the quota of one user."""
    found = suggestions(tables)
    if not found:
        msg = f"{tables} has no window with new producer ids yet: let the stream run past its learning time first"
        raise JobError(msg)
    if entity_name is not None:
        output().print(printable(one_line(_command(tables, entity_name, found))), soft_wrap=True)
        return
    if export_file is not None:
        write_quotas(export_file, as_entries(found))
    show(Answer(_COLUMNS, tuple(map(_row, found))), wanted)
    if wanted != "table":
        return
    for each in found:
        if each.looks_like is not None:
            output().print(printable(_warning(each)), soft_wrap=True)
    if export_file is not None:
        command = typed(("pid-quota", "quotas", "--tables", tables, "--import", str(export_file)))
        output().print(printable(f"written: {export_file}. Set them with: {command}"), soft_wrap=True)


def _command(tables: str, entity_name: str, found: list[Suggestion]) -> str:
    allowance = next((each.allowance for each in found if entity_name_of(each.principal) == entity_name), None)
    if allowance is None:
        top = typed(("pid-quota", "top", "--tables", tables))
        msg = f"User:{entity_name} has no window with new producer ids yet. Check the name with `{top}`"
        raise JobError(msg)
    return set_quota(tables, entity_name, replace(allowance, producer_ids_burst=allowance.burst))


def _warning(suggestion: Suggestion) -> str:
    cause = str(suggestion.looks_like)
    mend = "If it needs a fix, fix that" if cause.startswith(Churn.CANT_TELL.value) else "Fix that"
    why = typed(("pid-quota", "why", suggestion.principal))
    return f"{suggestion.principal}: {cause}. {mend} first ({why}); {suggestion.once_mended:g} will suffice then"


def _row(each: Suggestion) -> tuple[object, ...]:
    now = each.now
    before = (now and now.producer_ids_rate, now and now.producer_ids_burst)
    suggested = (each.allowance.producer_ids_rate, each.allowance.burst)
    return (each.principal, each.windows, each.most_pids, *before, *suggested, each.looks_like, each.once_mended)

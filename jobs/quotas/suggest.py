"""`pid-quota suggest-quotas`: a quota per principal from what it did before, tried out on the topic's history."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

import typer

from jobs.errors import SuggestError
from jobs.lifecycle.why import diagnosis_of, diagnosis_text
from jobs.quotas.replay import Refusals, replay
from jobs.tables.sql_command import TablesOption
from jobs.tables_out import JsonOption, to_json, to_table
from jobs.terminal import output, printable
from lifecycle.churn import Diagnosis
from quota.config import QuotaConfig
from quota.principals import NEVER_ENFORCED, entity_name
from quota.suggestion import rounded_up, suggested_rate
from tables.catalog.answer import Answer
from tables.errors import TableNotFoundError
from tables.query.sql_query import query
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import quotas_in_force

_HISTORY = "SELECT principal, new_pids FROM new_pids_per_window WHERE new_pids > 0 AND NOT learning"
_CLIENTS = "SELECT * FROM principal_churn ORDER BY new_pids DESC"
_USER = "User:"


@dataclass(frozen=True)
class Suggestion:
    """A quota for a principal.

    Attributes:
        principal: KafkaPrincipal.
        windows: Windows in which it made new PIDs.
        most_pids: New PIDs of the worst of them.
        quota_now: In force; None without one.
        producer_ids_rate: Suggested, new PIDs per window.
        looks_like: What its clients do that has to be mended; None if nothing has.
        once_mended: Quota that will do then; None as above.
        refused: What it would have refused; None if history was not replayed.
    """

    principal: str
    windows: int
    most_pids: int
    quota_now: float | None
    producer_ids_rate: float
    looks_like: str | None = None
    once_mended: float | None = None
    refused: Refusals | None = None


def suggest_quotas(
    tables: TablesOption,
    bootstrap_servers: Annotated[
        str | None, typer.Option(help="Replay the topic's history on the suggestion, to say what it would refuse.")
    ] = None,
    percentile: Annotated[float, typer.Option(min=1, max=100, help="Share of windows that must fit.")] = 99.0,
    headroom: Annotated[float, typer.Option(min=1, help="Factor on that.")] = 1.5,
    at_least: Annotated[float, typer.Option(min=1, help="Smallest quota.")] = 10.0,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", help="Write a file for `pid-quota quotas --import`.")
    ] = None,
    kafka_config: Annotated[Path | None, typer.Option(help="Client settings, as name=value lines.")] = None,
    learn_seconds: Annotated[int | None, typer.Option(min=0, help="Of the replay. [default: the window]")] = None,
    window_seconds: Annotated[int, typer.Option(help="The stream's window.")] = 3600,
    burst_windows: Annotated[float, typer.Option(help="The stream's full bucket, in windows of quota.")] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Suggest a quota per principal from its new producer ids per window, and say what it would have refused."""
    config = QuotaConfig(window_seconds=window_seconds, burst_windows=burst_windows)
    found = suggestions(tables, config, percentile=percentile, headroom=headroom, at_least=at_least)
    if not found:
        msg = f"{tables} has no window with new producer ids yet: let the stream run past its learning time first"
        raise SuggestError(msg)
    if bootstrap_servers is not None:
        refused = replay(as_entries(found), bootstrap_servers, kafka_config, config, learn_seconds)
        found = _with_refusals(found, refused)
    if csv_file is not None:
        write_csv(csv_file, found)
    answer = _answer(found)
    if as_json:
        typer.echo(to_json(answer))
        return
    output().print(to_table(answer))
    for each in found:
        if each.looks_like is not None:
            output().print(printable(_warning(each)), soft_wrap=True)
    if csv_file is not None:
        output().print(f"written: {csv_file}. Set them with: pid-quota quotas --tables {tables} --import {csv_file}")


def suggestions(
    tables: str, config: QuotaConfig, *, percentile: float, headroom: float, at_least: float
) -> list[Suggestion]:
    """Return a quota for each user with new PIDs in the tables' history, the greatest first.

    Raises:
        TableError: If the tables can't be read.
        CatalogError: If the tables are in a catalog that refuses.
    """
    history: dict[str, list[int]] = {}
    for principal, new_pids in query(tables, _HISTORY, datetime.now(timezone.utc), config).rows:
        if principal.startswith(_USER) and principal not in NEVER_ENFORCED:
            history.setdefault(principal, []).append(new_pids)
    now, ills = _rates_now(tables), _ills(tables)
    found = []
    for principal, counts in history.items():
        ill = ills.get(principal)
        found.append(
            Suggestion(
                principal,
                len(counts),
                max(counts),
                now.get(entity_name(principal), now.get(None)),
                suggested_rate(counts, percentile=percentile, headroom=headroom, at_least=at_least),
                None if ill is None else ill.looks_like,
                None if ill is None else max(at_least, rounded_up(ill.processes * headroom)),
            )
        )
    return sorted(found, key=lambda each: (-each.producer_ids_rate, each.principal))


def as_entries(found: Sequence[Suggestion]) -> list[QuotaEntry]:
    """Return suggestions as quotas."""
    now = datetime.now(timezone.utc)
    return [QuotaEntry(entity_name(each.principal), each.producer_ids_rate, now, "suggested") for each in found]


def write_csv(file: Path, found: Sequence[Suggestion]) -> None:
    """Write suggestions as `pid-quota quotas --import` reads them.

    Raises:
        SuggestError: If the file can't be written.
    """
    try:
        with file.open("w", encoding="utf-8", newline="") as lines:
            writer = csv.writer(lines)
            writer.writerow(("entity_name", "producer_ids_rate"))
            writer.writerows((entity_name(each.principal), each.producer_ids_rate) for each in found)
    except OSError as error:
        msg = f"--csv {file} can't be written ({error.strerror}): choose another file"
        raise SuggestError(msg) from error


def _rates_now(tables: str) -> dict[str | None, float]:
    try:
        return {entry.entity_name: entry.producer_ids_rate for entry in quotas_in_force(tables)}
    except TableNotFoundError:
        return {}


@dataclass(frozen=True)
class _Ill:
    """What a principal does that has to be mended, and how many producers it needs then."""

    looks_like: str
    processes: int


def _ills(tables: str) -> dict[str, _Ill]:
    try:
        rows = query(tables, _CLIENTS, datetime.now(timezone.utc)).records()
    except TableNotFoundError:
        # No tap has told who asked for producer ids.
        return {}
    clients: dict[str, list[tuple[dict[str, Any], Diagnosis]]] = {}
    for row in rows:
        clients.setdefault(row["principal"], []).append((row, diagnosis_of(row)))
    return {
        principal: _Ill(diagnosis_text(ill), sum(_processes(row, diagnosis) for row, diagnosis in mine))
        for principal, mine in clients.items()
        # The one with the most producer ids says it.
        if (ill := next((diagnosis for _, diagnosis in mine if not diagnosis.is_harmless), None)) is not None
    }


def _processes(row: Mapping[str, Any], diagnosis: Diagnosis) -> int:
    """Processes of a client: one for each address, or as many as a roll-out starts."""
    new_pids, steps, hosts = int(row["new_pids"]), int(row["steps"]), int(row["hosts"])
    return max(1, hosts, -(-new_pids // max(1, steps)) if diagnosis.is_harmless else 0)


def _warning(suggestion: Suggestion) -> str:
    return (
        f"{suggestion.principal}: {suggestion.looks_like}. Mend that first (pid-quota why {suggestion.principal}); "
        f"{suggestion.once_mended:g} will do then"
    )


def _with_refusals(found: Sequence[Suggestion], refused: Mapping[str, Refusals]) -> list[Suggestion]:
    nothing = Refusals(0, 0)
    return [replace(each, refused=refused.get(each.principal, nothing)) for each in found]


def _answer(found: Sequence[Suggestion]) -> Answer:
    columns = (
        *("principal", "windows", "most_pids", "quota_now", "suggested", "would_refuse_pids", "would_throttle"),
        *("looks_like", "once_mended"),
    )
    rows = tuple(
        (
            each.principal,
            each.windows,
            each.most_pids,
            each.quota_now,
            each.producer_ids_rate,
            each.refused and each.refused.refused_pids,
            each.refused and each.refused.throttles,
            each.looks_like,
            each.once_mended,
        )
        for each in found
    )
    return Answer(columns, rows)

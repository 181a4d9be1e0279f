"""`pid-quota suggest-quotas`: a quota per principal from what it did before, tried out on the topic's history."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer

from jobs.console import output
from jobs.errors import SuggestError
from jobs.quotas.entry import QuotaEntry
from jobs.quotas.replay import Refusals, replay
from jobs.quotas.table import quotas_in_force
from jobs.tables.answer import Answer
from jobs.tables.query import query
from jobs.tables.sql import TablesOption
from jobs.tables_out import JsonOption, to_json, to_table
from quota.config import QuotaConfig
from quota.principals import NEVER_ENFORCED, entity_name
from quota.suggestion import suggested_rate
from streaming.errors import TableNotFoundError

_HISTORY = "SELECT principal, new_pids FROM new_pids_per_window WHERE new_pids > 0"
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
        refused: What it would have refused; None if history was not replayed.
    """

    principal: str
    windows: int
    most_pids: int
    quota_now: float | None
    producer_ids_rate: float
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
    now = _rates_now(tables)
    found = [
        Suggestion(
            principal,
            len(counts),
            max(counts),
            now.get(entity_name(principal), now.get(None)),
            suggested_rate(counts, percentile=percentile, headroom=headroom, at_least=at_least),
        )
        for principal, counts in history.items()
    ]
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


def _with_refusals(found: Sequence[Suggestion], refused: Mapping[str, Refusals]) -> list[Suggestion]:
    nothing = Refusals(0, 0)
    return [
        Suggestion(
            each.principal,
            each.windows,
            each.most_pids,
            each.quota_now,
            each.producer_ids_rate,
            refused.get(each.principal, nothing),
        )
        for each in found
    ]


def _answer(found: Sequence[Suggestion]) -> Answer:
    columns = ("principal", "windows", "most_pids", "quota_now", "suggested", "would_refuse_pids", "would_throttle")
    rows = tuple(
        (
            each.principal,
            each.windows,
            each.most_pids,
            each.quota_now,
            each.producer_ids_rate,
            each.refused and each.refused.refused_pids,
            each.refused and each.refused.throttles,
        )
        for each in found
    )
    return Answer(columns, rows)

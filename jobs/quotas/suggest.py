"""The command `pid-quota suggest-quotas`."""

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from jobs.errors import JobError
from jobs.options import SERVERS, JsonOption, KafkaConfigFile, TablesOption
from jobs.output.tables_out import show
from jobs.output.terminal import output, printable
from jobs.quotas.replay import replay
from lifecycle.churn import Churn
from quota.allowance import BURST, RATE
from quota.principals import entity_name
from tables.query.suggestions import RefusalCounts, Suggestion, as_entries, suggestions
from tables.store.open import open_store
from tables.store.values import Answer


def suggest_quotas(
    tables: TablesOption,
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(
            *SERVERS, help="Replay the topic's events under the suggestion, to count the ids that it would refuse."
        ),
    ] = None,
    percentile: Annotated[
        float, typer.Option(min=1, max=100, help="Percentage of windows that must stay below the quota.")
    ] = 99.0,
    headroom: Annotated[float, typer.Option(min=1, help="Factor by which the quota exceeds that percentile.")] = 1.5,
    at_least: Annotated[float, typer.Option(min=1, help="Minimum quota to suggest.")] = 10.0,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", help="Write a file for `pid-quota quotas --import`.")
    ] = None,
    kafka_config: KafkaConfigFile = None,
    as_json: JsonOption = False,
) -> None:
    """Suggest a quota per principal from new producer ids per window.

    With `--bootstrap-server`, count the ids that each suggestion would refuse.
    """
    found = suggestions(tables, percentile=percentile, headroom=headroom, at_least=at_least)
    if not found:
        msg = f"{tables} has no window with new producer ids yet: let the stream run past its learning time first"
        raise JobError(msg)
    if bootstrap_servers is not None:
        with open_store(tables) as store:
            settings = store.settings()
        refused = replay(as_entries(found), bootstrap_servers, kafka_config, settings)
        found = [replace(each, refused=refused.get(each.principal, RefusalCounts(0, 0))) for each in found]
    if csv_file is not None:
        write_csv(csv_file, found)
    show(_answer(found), "json" if as_json else "table")
    if as_json:
        return
    for each in found:
        if each.looks_like is not None:
            output().print(printable(_warning(each)), soft_wrap=True)
    if csv_file is not None:
        output().print(f"written: {csv_file}. Set them with: pid-quota quotas --tables {tables} --import {csv_file}")


def write_csv(file: Path, found: Sequence[Suggestion]) -> None:
    """Write suggestions as a file for `pid-quota quotas --import`."""
    try:
        with file.open("w", encoding="utf-8", newline="") as lines:
            writer = csv.writer(lines)
            writer.writerow(("entity_name", RATE, BURST))
            writer.writerows(
                (entity_name(each.principal), each.allowance.producer_ids_rate, each.allowance.burst) for each in found
            )
    except OSError as error:
        msg = f"--csv {file} can't be written ({error.strerror}): choose another file"
        raise JobError(msg) from error


def _warning(suggestion: Suggestion) -> str:
    cause = str(suggestion.looks_like)
    mend = "If it needs a fix, fix that" if cause.startswith(Churn.CANT_TELL.value) else "Fix that"
    return (
        f"{suggestion.principal}: {cause}. {mend} first (pid-quota why {suggestion.principal}); "
        f"{suggestion.once_mended:g} will suffice then"
    )


def _answer(found: Sequence[Suggestion]) -> Answer:
    now = ("principal", "windows", "most_pids", "quota_now", "burst_now")
    suggested = ("suggested", "burst", "would_refuse_pids", "would_throttle", "looks_like", "once_mended")
    rows = tuple(
        (
            each.principal,
            each.windows,
            each.most_pids,
            each.now and each.now.producer_ids_rate,
            each.now and each.now.producer_ids_burst,
            each.allowance.producer_ids_rate,
            each.allowance.burst,
            each.refused and each.refused.refused_pids,
            each.refused and each.refused.throttles,
            each.looks_like,
            each.once_mended,
        )
        for each in found
    )
    return Answer((*now, *suggested), rows)

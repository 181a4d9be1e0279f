"""Diagnoses a principal's clients from the view `principal_churn`, and from brokers' answers."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from lifecycle.churn import Diagnosis, diagnosis_text
from lifecycle.churn_evidence import MIN_STEP_PIDS, ChurnEvidence
from lifecycle.churn_rules import diagnose
from lifecycle.producer_lives import Life, Lives, lives_of
from tables.query.sql_query import query
from tables.times import to_ms

CLIENTS = """
SELECT *
FROM principal_churn
WHERE silent_seconds < 3600
ORDER BY new_pids DESC, client
"""
_CLIENTS = "SELECT * FROM principal_churn WHERE principal = :principal ORDER BY new_pids DESC, client"
_HAND_OUTS = """
SELECT client, client_host, result_producer_id, at_ms,
    lead(at_ms) OVER (PARTITION BY client, client_host ORDER BY at_ms, result_producer_id) AS next_ms
FROM recent_inits
WHERE principal = :principal AND is_new_pid
"""
_MIN_SHARE = 0.5
"""If brokers hold less than this share of a client's new producer ids, their answers are not used."""
_CLOCK_MS = 60_000
"""A client's clock may be wrong by this. Brokers know uses by the times in records, which clients may set freely."""
_MAX_IMPOSSIBLE = 0.05
"""If more of a client's times are before the hand-out or in the future, all of them may be those of old events."""
_MIN_SAMPLE = 3
"""Fewer sampled ids prove nothing, unless they are half of all."""
# What `state/pid_uses.py` notes: a use that extends the time in use by half, and one use in each quantum.
_SLACK_SHARE = 0.5
_SLACK_MS = 900_000


@dataclass(frozen=True)
class DiagnosedClient:
    """A client of a principal.

    Attributes:
        row: Row of the view `principal_churn`.
        lives: How long the client's producer ids were in use; None if unknown.
    """

    row: Mapping[str, Any]
    diagnosis: Diagnosis
    lives: Lives | None


def clients_of(
    tables: str, principal: str, now: datetime, last_batches_ms: Mapping[int, int] | None = None
) -> list[DiagnosedClient]:
    """Diagnose the clients of a principal. Clients with the most new producer ids come first.

    `last_batches_ms` has the time of each producer id's last batch on the brokers. Without, the tables' sample counts.

    Raises:
        TableError: If the tables can't be read.
    """
    told = {} if last_batches_ms is None else _lives_by_brokers(tables, principal, last_batches_ms, now)
    rows = query(tables, _CLIENTS, now, {"principal": principal}).records()
    lives = [told.get(row["client"]) or lives_by_tables(row) for row in rows]
    return [DiagnosedClient(row, diagnosis_of(row, known), known) for row, known in zip(rows, lives, strict=True)]


def diagnosis_of(row: Mapping[str, Any], lives: Lives | None = None) -> Diagnosis:
    """Diagnose a row of the view `principal_churn`. Without `lives`, the row's own sample of lives counts."""
    evidence = {each.name: row[each.name] for each in fields(ChurnEvidence) if each.name != "lives"}
    return diagnose(ChurnEvidence(**evidence, lives=lives or lives_by_tables(row)))


def causes_of(rows: Sequence[Mapping[str, Any]], principals: Collection[str]) -> dict[str, str]:
    """Return the diagnosis of each principal as text, from rows of `CLIENTS`.

    The client with the most new producer ids decides. Principals without new producer ids in the last hour
    are left out.
    """
    wanted = [row for row in rows if row["principal"] in principals]
    # The last item of a dictionary wins, so reverse the rows to keep each principal's first row.
    return {row["principal"]: diagnosis_text(diagnosis_of(row)) for row in reversed(wanted)}


def lives_by_tables(row: Mapping[str, Any]) -> Lives | None:
    """Return how long the producer ids of a row's sample were in use; None if the sample has too few of them."""
    texts = row["lives"] or []
    if len(texts) < min(_MIN_SAMPLE, _MIN_SHARE * row["new_pids"]) or not texts:
        return None
    lives = [Life(host, *map(int, times)) for *times, host in (text.split(" ", 3) for text in texts)]
    return lives_of(
        lives,
        row["lives_as_of_ms"],
        precision_ms=row["repeat_ms"],
        in_groups=row["new_pids"] >= MIN_STEP_PIDS * row["steps"] > MIN_STEP_PIDS,
        slack_share=_SLACK_SHARE,
        slack_ms=_SLACK_MS,
    )


def _lives_by_brokers(
    tables: str, principal: str, last_batches_ms: Mapping[int, int], now: datetime
) -> dict[str, Lives]:
    found: dict[str, list[Life]] = defaultdict(list)
    handed_out: Counter[str] = Counter()
    for row in query(tables, _HAND_OUTS, now, {"principal": principal}).records():
        used_at_ms = last_batches_ms.get(row["result_producer_id"])
        handed_out[row["client"]] += 1
        if used_at_ms is not None:
            found[row["client"]].append(Life(row["client_host"] or "", row["at_ms"], used_at_ms, row["next_ms"] or 0))
    told = {
        client: lives_of(lives, to_ms(now))
        for client, lives in found.items()
        # Brokers forget ids and hide topics that you may not read, so a few ids prove nothing.
        if len(lives) >= _MIN_SHARE * handed_out[client] and _are_possible(lives, to_ms(now))
    }
    return {client: lives for client, lives in told.items() if lives is not None}


def _are_possible(lives: Sequence[Life], now_ms: int) -> bool:
    impossible = [not each.from_ms - _CLOCK_MS <= each.to_ms <= now_ms + _CLOCK_MS for each in lives]
    return sum(impossible) <= _MAX_IMPOSSIBLE * len(lives)

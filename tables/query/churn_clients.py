"""Diagnoses a principal's clients from the view `principal_churn` and from brokers' answers."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from lifecycle.churn import Diagnosis, diagnose
from lifecycle.churn_evidence import ChurnEvidence
from lifecycle.producer_lives import Life, Lives, lives_of
from tables.query.sql_query import query
from tables.times import to_ms

_CLIENTS = "SELECT * FROM principal_churn WHERE principal = :principal ORDER BY new_pids DESC, client"
_HAND_OUTS = """
SELECT client, client_host, result_producer_id, at_ms
FROM recent_inits
WHERE principal = :principal AND is_new_pid
"""
_MIN_SHARE = 0.5
"""If brokers hold less than this share of a client's new producer ids, `DiagnosedClient.lives` is None."""


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

    `last_batches_ms` has the time of each producer id's last batch on the brokers.

    Raises:
        TableError: If the tables can't be read.
    """
    lives = {} if last_batches_ms is None else _lives_of_clients(tables, principal, last_batches_ms, now)
    rows = query(tables, _CLIENTS, now, {"principal": principal}).records()
    return [DiagnosedClient(row, diagnosis_of(row, lives.get(row["client"])), lives.get(row["client"])) for row in rows]


def diagnosis_of(row: Mapping[str, Any], lives: Lives | None = None) -> Diagnosis:
    """Diagnose a row of the view `principal_churn`."""
    evidence = {each.name: row[each.name] for each in fields(ChurnEvidence) if each.name != "lives"}
    return diagnose(ChurnEvidence(**evidence, lives=lives))


def _lives_of_clients(
    tables: str, principal: str, last_batches_ms: Mapping[int, int], now: datetime
) -> dict[str, Lives]:
    found: dict[str, list[Life]] = defaultdict(list)
    handed_out: Counter[str] = Counter()
    for row in query(tables, _HAND_OUTS, now, {"principal": principal}).records():
        used_at_ms = last_batches_ms.get(row["result_producer_id"])
        handed_out[row["client"]] += 1
        if used_at_ms is not None:
            found[row["client"]].append(Life(row["client_host"] or "", row["at_ms"], used_at_ms))
    told = {
        client: lives_of(lives, to_ms(now))
        for client, lives in found.items()
        # Brokers forget ids and hide topics that you may not read, so a few ids prove nothing.
        if len(lives) >= _MIN_SHARE * handed_out[client]
    }
    return {client: lives for client, lives in told.items() if lives is not None}

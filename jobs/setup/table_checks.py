"""Checks of the stream's tables: whether it writes them, what it says in them, and whether it may write them."""

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from broker.doctor.findings import Finding, ok, warning, wrong
from jobs.output.terminal import OUR_ERRORS
from streaming.databricks import secret_lines
from tables.errors import TablesError
from tables.query.freshness import STALE_AFTER_S, read_freshness
from tables.query.pid_blocks import read_history
from tables.query.sql_query import query
from tables.schema.specs import TABLES
from tables.store.open import open_store
from tables.store.rights import Right

_HEALTH = "SELECT silent_seconds, saturated_principals, learning_principals, quarantined_hour FROM stream_health"
_STREAM_WARNINGS = {
    "learning_principals": (
        "principal(s) are learning: PIDs that are older than the plugin's watch are not charged",
        "docs/plugin.md#learning",
    ),
    "saturated_principals": ("principal(s) are saturated, so they are not throttled", "docs/limits.md"),
    "quarantined_hour": (
        "record(s) of the last hour are not valid produce events",
        "pid-quota sql 'SELECT * FROM quarantined_events ORDER BY record_timestamp DESC LIMIT 9'",
    ),
}
_VIOLATIONS = "SELECT promise, broker_id, first_producer_id FROM pid_block_violations"
_TRIED = ".pid-quota-check"


def check_tables(tables: str) -> Iterator[Finding]:
    """Check that the stream writes, that it can judge what it reads, and what KIP-730 promises of producer ids."""
    now = datetime.now(timezone.utc)
    try:
        with open_store(tables) as store:
            for name in TABLES:
                store.require_known_version(name)
        yield from _of_stream(tables, now)
        yield from _of_blocks(tables, now)
    except TablesError as error:
        what, _, remedy = str(error).rpartition(": ")
        yield wrong("stream", what or str(error), remedy if what else "")


def _of_stream(tables: str, now: datetime) -> Iterator[Finding]:
    fresh = read_freshness(tables, now)
    (health,) = query(tables, _HEALTH, now).records()
    if fresh.is_stale:
        yield wrong("stream", fresh.warning(), "pid-quota run (docs/reference.md)")
    elif (health["silent_seconds"] or 0) > STALE_AFTER_S:
        text = f"its newest metrics are {health['silent_seconds']:.0f} s old: the stream lags, or nobody produces"
        yield warning("stream", text, "pid-quota top")
    else:
        yield ok("stream", f"newest row {fresh.since}")
    for column, (text, remedy) in _STREAM_WARNINGS.items():
        if health[column]:
            yield warning("stream", f"{health[column]} {text}", remedy)


def _of_blocks(tables: str, now: datetime) -> Iterator[Finding]:
    for promise, broker_id, first in query(tables, _VIOLATIONS, now).rows:
        text = f"the block of broker {broker_id} that begins at {first} breaks a promise of KIP-730: {promise}"
        yield wrong("producer ids", text, "pid-quota sql --view pid_block_violations (docs/kip-730.md)")
    for forged in read_history(tables, now).made_up:
        text = f"{forged.principal} uses producer id {forged.producer_id}, which no controller allocated"
        yield wrong("producer ids", text, "docs/kip-730.md#pids-that-no-broker-issued")


def check_writing(tables: str, checkpoint: Path, secret: str) -> Iterator[Finding]:
    """Try each right that the stream needs on its tables, its checkpoint and the secret with the client's settings."""
    with open_store(tables) as store:
        rights = [*store.rights(), _writing(checkpoint)]
        if secret:
            remedy = f"databricks secrets put-acl {secret.partition('/')[0]} WHO READ"
            remedy += "; databricks bundle run put-secret < FILE"
            rights.append(Right(f"read the secret {secret}", lambda: secret_lines(secret), remedy))
        for right in rights:
            try:
                right.attempt()
            except (*OUR_ERRORS, OSError) as error:
                remedy = f"{right.remedy} (WHO is the identity that runs the stream)"
                yield wrong(right.name, f"missing: {error}", remedy)
            else:
                yield ok(right.name, "granted")


def _writing(folder: Path) -> Right:
    def attempt() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / _TRIED
        file.write_text("pid-quota tried to write here\n", encoding="utf-8")
        file.unlink()

    return Right(f"write to {folder}", attempt, "GRANT READ VOLUME, WRITE VOLUME ON VOLUME … TO WHO")

"""The command `pid-quota why`."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

import typer

from jobs.errors import JobError
from jobs.lifecycle.issuer import show_issuer
from jobs.options import AskedServers, JsonOption, KafkaConfigFile, TablesOption
from jobs.output.hold_text import hold_text
from jobs.output.human import counted, plural, size, time_of
from jobs.output.json_out import print_json
from jobs.output.progress import progress_bar
from jobs.output.staleness import warn_if_known_stale
from jobs.output.terminal import output, printable
from jobs.principals import meanings, similar
from lifecycle.churn import HARMLESS, Churn, diagnosis_text, what_decides
from lifecycle.churn_evidence import MIN_NEW_PIDS
from lifecycle.churn_fixes import FIXES
from lifecycle.known_clients import known_client
from lifecycle.producer_lives import BROKERS_PRECISION_S, PAUSE_MS, Lives
from quota.principals import entity_name
from quota.typed import quoted, typed
from tables.query.churn_clients import DiagnosedClient, clients_of, lives_by_tables
from tables.query.principal_facts import (
    HELD,
    HOLD,
    asked_from,
    is_known,
    known_principals,
    read_fact,
    refused_from,
)
from tables.times import duration

_FOR_ITS_OWNER = "docs/throttled.md"
_IF_WANTED = "to admit its ids: `{}` prints the command that sets a sufficient quota"
_MAX_NAMED = 5


def why(
    principal: Annotated[
        str,
        typer.Argument(
            metavar="PRINCIPAL|PID",
            help="Principal, such as User:mallory; a name without a type is a user. A number is a producer id.",
        ),
    ],
    tables: TablesOption,
    bootstrap_servers: AskedServers = None,
    kafka_config: KafkaConfigFile = None,
    as_json: JsonOption = False,
) -> None:
    """Diagnose a principal's clients: their use of producers, the evidence, and the fix. Or tell who got a producer id.

    With --bootstrap-server, ask the brokers how long each producer id was in use, for a more certain diagnosis.
    """
    if principal.isascii() and principal.isdecimal():
        show_issuer(tables, int(principal), datetime.now(timezone.utc), as_json=as_json)
        return
    name = _principal_meant(tables, principal, datetime.now(timezone.utc))
    last_ms = None if bootstrap_servers is None else ask_last_batches(bootstrap_servers, kafka_config)
    now = datetime.now(timezone.utc)
    rows = clients_of(tables, name, now, last_ms)
    warn_if_known_stale(tables, now)
    refused, asked = refused_from(tables, name, now), asked_from(tables, name, now)
    hold, held = read_fact(tables, HOLD, name, now), read_fact(tables, HELD, name, now)
    if as_json:
        clients = [_client_dict(row) | {"addresses": asked.get(row.row["client"], {})} for row in rows]
        found = {"principal": name, "refused_from": refused, "hold": hold, "held": held, "clients": clients}
        print_json(found, indent=2)
        return
    output().print(printable(_headline(name, rows[0].row if rows else None)))
    lines = []
    if held is not None:
        entries, heap = plural(held["entries"], "entry", "entries"), size(held["estimated_bytes"])
        what = f"{entries} (producer ids times partitions times replicas), about {heap} of heap"
        lines.append(f"  held by brokers: {what}, swept {time_of(held['swept_at'])}")
    if refused:
        lines.append(f"  refused in its last throttle, by address: {counted(refused)}")
    if hold:
        lines.append(f"  {hold_text(hold)}")
        lines.append(f"  what the owner of its clients sees, and can do: {_FOR_ITS_OWNER}")
    if rows and rows[0].row["throttled_now"] and rows[0].diagnosis.is_harmless:
        suggest = ("pid-quota", "quotas", "--tables", tables, "--suggest", "--entity-name", entity_name(name))
        lines.append(f"  {_IF_WANTED.format(typed(suggest))}")
    for each in rows:
        lines += _report(each, asked.get(each.row["client"], {}))
    for line in lines:
        output().print(printable(line), soft_wrap=True)


def ask_last_batches(bootstrap_servers: str, kafka_config: Path | None) -> dict[int, int]:
    """Ask the brokers for the time of each producer id's last batch, in ms since the epoch."""
    from broker.kafka.own_rights import sees_every_topic
    from broker.occupancy.sweep import last_batches
    from jobs.kafka_login import kafka_login

    kafka = kafka_login(bootstrap_servers, kafka_config)
    with progress_bar("asking the brokers") as report:
        found, unanswered = last_batches(kafka, report)
    if not sees_every_topic(kafka.client()):
        typer.echo("no answer for topics that brokers hide from this user: READ on all topics is needed", err=True)
    if unanswered:
        first = unanswered[0]
        where = f"{first.topic}-{first.partition}: {first.reason}"
        typer.echo(f"no answer for {plural(len(unanswered), 'partition')}, such as {where}", err=True)
    return found


def evidence_text(row: Mapping[str, Any], lives: Lives | None = None) -> str:
    """Describe the evidence in a row of `principal_churn` and in `lives`, by default the row's own sample."""
    parts = [f"{plural(row['new_pids'], 'new producer id')} in 24 h"]
    if row["new_pids"] >= MIN_NEW_PIDS:
        parts[0] += f" ({row['pids_per_hour']:,.0f} an hour while active)"
    life = row["median_life_seconds"]
    parts.append("no second one from any address" if life is None else f"the next one after {duration(life)} (median)")
    lives = lives or lives_by_tables(row)
    if lives is not None:
        parts.append(f"{lives.kept_share:.0%} {_until(lives)}")
        if lives.kept_share < 1:
            used_seconds = max(lives.used_seconds, lives.precision_seconds)
            brief = "" if lives.used_seconds >= lives.precision_seconds else "at most "
            parts.append(f"the others were for {brief}{duration(used_seconds)} (median)")
    if row["steps"] > 1:
        parts.append(f"in {row['steps']:,} groups")
    if row["transactional_ids"]:
        parts.append(plural(row["transactional_ids"], "new transactional id"))
    if row["expired_ids"]:
        parts.append(f"{plural(row['expired_ids'], 'producer id')} for transactional ids that had expired")
    if row["rotations"]:
        named = sorted(set(row["rotated_ids"] or []))
        more = f" and {len(named) - _MAX_NAMED:,} more" if len(named) > _MAX_NAMED else ""
        parts.append(
            f"at least about {plural(row['rotations'], 'producer id')} handed out by EndTxn, each in use for "
            f"{duration(row['rotation_seconds'] or 0.0)} (median), of {', '.join(named[:_MAX_NAMED])}{more}"
        )
    if row["fences"]:
        parts.append(f"{plural(row['fences'], 'time')} an admin client fenced a transactional id before its next start")
    parts.append(f"{row['errors_before_share']:.0%} after an error")
    if row["error_answers"]:
        parts.append(plural(row["error_answers"], "error answer"))
    parts.append(plural(row["hosts"], "address", "addresses"))
    if row["epoch_bumps"]:
        parts.append(f"{plural(row['epoch_bumps'], 'epoch')} bumped, which cost no producer id")
    if row["returns"]:
        parts.append(f"{plural(row['returns'], 'time')} a transactional id was taken back from another instance")
    return ", ".join(parts)


def _until(lives: Lives) -> str:
    # The tables' sample does not know how long ago the client last wrote.
    if lives.precision_seconds > BROKERS_PRECISION_S:
        return "in use when the client last wrote"
    if lives.silent_seconds < PAUSE_MS / 1000:
        return "still in use"
    return f"in use when the client last wrote, {duration(lives.silent_seconds)} ago"


def _principal_meant(tables: str, text: str, now: datetime) -> str:
    meant = [each for each in meanings(text) if is_known(tables, each, now)]
    if len(meant) > 1:
        msg = f"{quoted(text)} is a principal, and the name of another: write {' or '.join(map(quoted, meant))}"
        raise typer.BadParameter(msg)
    if meant:
        return meant[0]
    near = similar(text, known_principals(tables, now))
    remedy = f"did you mean {' or '.join(map(quoted, near))}? If not, check" if near else "check the name, and"
    name = " or ".join(map(quoted, meanings(text)))
    msg = f"tables {tables} have neither rows nor recent requests of {name}: {remedy} `pid-quota doctor`"
    raise JobError(msg)


def _headline(name: str, row: Mapping[str, Any] | None) -> str:
    if row is None:
        return f"{name}: no request for a producer id was reported in the last 24 hours"
    if not row["throttles"]:
        return f"{name}: not throttled in the last 24 hours"
    now = ", throttled now" if row["throttled_now"] else ""
    return f"{name}: {plural(row['throttles'], 'throttle')} in the last 24 hours{now}"


def _report(client: DiagnosedClient, addresses: Mapping[str, int]) -> Iterator[str]:
    diagnosis = client.diagnosis
    yield f"client {client.row['client']}: {diagnosis_text(diagnosis)}"
    yield f"  evidence: {evidence_text(client.row, client.lives)}"
    if addresses:
        yield f"  new producer ids by address: {counted(addresses)}"
    decides = what_decides(diagnosis, with_lives=client.lives is not None)
    if decides:
        yield f"  what decides: {decides}"
    tool = known_client(client.row["client"], client.row["a_transactional_id"])
    if tool is not None and tool.healthy:
        yield f"  named as by {tool.tool}: {tool.healthy}"
    for kind in diagnosis.fitting:
        if tool is not None and kind.value in tool.fixes:
            yield f"  fix in {tool.tool}: {tool.fixes[kind.value]}"
        if kind is not Churn.HEALTHY:
            fix, is_certain = FIXES[kind], kind is diagnosis.kind
            yield f"  fix{'' if is_certain else f' if {kind.value}'}: {fix.summary}"
            if kind not in HARMLESS and is_certain:
                yield f"  Java: {fix.java}"
                yield f"  Python: {fix.python}"
                yield f"  librdkafka: {fix.librdkafka}"


def _client_dict(client: DiagnosedClient) -> dict[str, Any]:
    diagnosis = client.diagnosis
    tool = known_client(client.row["client"], client.row["a_transactional_id"])
    row = {name: value for name, value in client.row.items() if not name.startswith("lives")}
    return row | {
        "tool": tool and tool.tool,
        "kind": diagnosis.kind.value,
        "could_be": [each.value for each in diagnosis.could_be],
        "unlikely": [each.value for each in diagnosis.unlikely],
        "what_decides": what_decides(diagnosis, with_lives=client.lives is not None) or None,
        "lives": None if client.lives is None else asdict(client.lives),
        "fix": asdict(FIXES[diagnosis.kind]),
    }

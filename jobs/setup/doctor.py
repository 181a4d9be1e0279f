"""The command `pid-quota doctor`."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime, timezone

import typer

from broker.doctor.cluster_checks import check_rights, check_topics
from broker.doctor.findings import Finding, Verdict, guarded, ok, warning, wrong
from broker.doctor.hold_checks import check_holds
from broker.doctor.plugin_checks import check_clocks, check_plugins
from broker.enforcement.hold_topic import HoldTopic, steady_ms
from broker.errors import TopicMissingError
from broker.kafka.config import KafkaConfig
from broker.kafka.report_tail import DatedState, newest_states
from broker.kafka.topic_setup import TopicSetup
from broker.kafka.topics import running_brokers
from jobs.options import BootstrapServers, JsonOption, KafkaConfigFile, OptionalTables
from jobs.output.human import plural
from jobs.output.json_out import print_json
from jobs.output.terminal import output
from jobs.output.text_tables import TextTable
from tables.errors import TablesError
from tables.query.freshness import read_freshness
from tables.query.sql_query import query
from tables.schema.specs import TABLES
from tables.store.open import open_store

_MARKS = {Verdict.OK: "✓", Verdict.WARNING: "!", Verdict.WRONG: "✗"}
_COLUMNS = ("", "check", "found", "remedy")
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


def doctor(
    bootstrap_servers: BootstrapServers,
    kafka_config: KafkaConfigFile = None,
    tables: OptionalTables = None,
    as_json: JsonOption = False,
) -> None:
    """Check plugins, topics, rights, clocks, holds and stream without changes; exit code 1 if something is wrong."""
    kafka = KafkaConfig.load(bootstrap_servers, kafka_config)
    findings = []
    for finding in _findings(kafka.client(), tables):
        findings.append(finding)
        if as_json:
            print_json(asdict(finding))
    failed = sum(each.verdict is Verdict.WRONG for each in findings)
    if not as_json:
        _show(findings, failed)
    if failed:
        raise typer.Exit(1)


def _findings(settings: dict[str, str], tables: str | None) -> Iterator[Finding]:
    # If no broker answers, or brokers reject the login, no other check is possible. The error ends the command.
    brokers = running_brokers(settings)
    yield ok("brokers", f"{plural(len(brokers), 'broker')}: {', '.join(map(str, brokers))}")
    yield from guarded("rights", lambda: check_rights(settings))
    yield from guarded("topics", lambda: check_topics(TopicSetup(settings)))
    yield from guarded("plugins", lambda: _of_plugins(settings, brokers))
    yield from guarded("holds", lambda: _of_holds(settings, brokers))
    if tables is not None:
        yield from _of_tables(tables)


def _of_plugins(settings: dict[str, str], brokers: Sequence[int]) -> Iterator[Finding]:
    states: dict[int, DatedState] = {}
    # `check_topics` reports a missing topic. Without the topic, no plugin has reported.
    with suppress(TopicMissingError):
        states = newest_states(settings)
    yield from check_plugins(brokers, states, _now_ms())
    yield from check_clocks(states.values())


def _of_holds(settings: dict[str, str], brokers: Sequence[int]) -> Iterator[Finding]:
    with suppress(TopicMissingError), HoldTopic(settings) as topic:
        now_ms = topic.state.time.now_ms(steady_ms())
        yield from check_holds(topic.state, brokers, _now_ms() if now_ms is None else now_ms)


def _of_tables(tables: str) -> Iterator[Finding]:
    now = datetime.now(timezone.utc)
    try:
        with open_store(tables) as store:
            for name in TABLES:
                store.require_known_version(name)
        fresh = read_freshness(tables, now)
        (health,) = query(tables, _HEALTH, now).records()
    except TablesError as error:
        what, _, remedy = str(error).rpartition(": ")
        yield wrong("stream", what or str(error), remedy if what else "")
        return
    if fresh.is_stale:
        yield wrong("stream", fresh.warning(), "pid-quota run (docs/reference.md)")
    elif (health["silent_seconds"] or 0) > fresh.stale_after_s:
        text = f"its newest metrics are {health['silent_seconds']:.0f} s old: the stream lags, or nobody produces"
        yield warning("stream", text, "pid-quota top")
    else:
        yield ok("stream", f"newest row {fresh.since}")
    for column, (text, remedy) in _STREAM_WARNINGS.items():
        if health[column]:
            yield warning("stream", f"{health[column]} {text}", remedy)


def _now_ms() -> int:
    return round(time.time() * 1000)


def _show(findings: Sequence[Finding], failed: int) -> None:
    rows = [(_MARKS[each.verdict], each.subject, each.found, each.remedy) for each in findings]
    output().print(TextTable(_COLUMNS, rows))
    warned = sum(each.verdict is Verdict.WARNING for each in findings)
    output().print(f"{plural(failed, 'check')} failed, {plural(warned, 'warning')}, of {len(findings)}", markup=False)

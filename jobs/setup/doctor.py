"""The command `pid-quota doctor`."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from broker.doctor.cluster_checks import check_rights, check_topics
from broker.doctor.findings import Finding, Verdict, guarded, ok
from broker.doctor.hold_checks import check_holds
from broker.doctor.plugin_checks import check_clocks, check_plugins
from broker.enforcement.hold_topic import HoldTopic, steady_ms
from broker.errors import TopicMissingError
from broker.kafka.report_tail import DatedState, newest_states
from broker.kafka.topic_setup import TopicSetup
from broker.kafka.topics import running_brokers
from jobs.kafka_login import kafka_login, secret_name
from jobs.options import JsonOption, KafkaConfigFile, OptionalServers, OptionalTables
from jobs.output.human import plural
from jobs.output.json_out import print_json
from jobs.output.terminal import output
from jobs.output.text_tables import TextTable
from jobs.setup.table_checks import check_tables, check_writing

_MARKS = {Verdict.OK: "✓", Verdict.WARNING: "!", Verdict.WRONG: "✗"}
_COLUMNS = ("", "check", "found", "remedy")


def doctor(
    bootstrap_servers: OptionalServers = None,
    kafka_config: KafkaConfigFile = None,
    tables: OptionalTables = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the stream's checkpoint: try each right on it and on the tables, by writing and deleting.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check plugins, topics, rights, clocks, holds, stream and tables; exit code 1 if something is wrong.

    Without --checkpoint, this command changes nothing.
    """
    if bootstrap_servers is None and tables is None:
        msg = "give --bootstrap-server to check the brokers, --tables to check the stream's tables, or both"
        raise typer.BadParameter(msg)
    findings = []
    for finding in _findings(bootstrap_servers, kafka_config, tables, checkpoint):
        findings.append(finding)
        if as_json:
            print_json(asdict(finding))
    failed = sum(each.verdict is Verdict.WRONG for each in findings)
    if not as_json:
        _show(findings, failed)
    if failed:
        raise typer.Exit(1)


def _findings(
    servers: str | None, kafka_config: Path | None, tables: str | None, checkpoint: Path | None
) -> Iterator[Finding]:
    if servers is not None:
        yield from _of_brokers(kafka_login(servers, kafka_config).client())
    if tables is not None and checkpoint is not None:
        yield from check_writing(tables, checkpoint, secret_name(kafka_config))
    elif tables is not None:
        yield from check_tables(tables)


def _of_brokers(settings: dict[str, str]) -> Iterator[Finding]:
    # If no broker answers, or brokers reject the login, no other check is possible. The error ends the command.
    brokers = running_brokers(settings)
    yield ok("brokers", f"{plural(len(brokers), 'broker')}: {', '.join(map(str, brokers))}")
    yield from guarded("rights", lambda: check_rights(settings))
    yield from guarded("topics", lambda: check_topics(TopicSetup(settings)))
    yield from guarded("plugins", lambda: _of_plugins(settings, brokers))
    yield from guarded("holds", lambda: _of_holds(settings, brokers))


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


def _now_ms() -> int:
    return round(time.time() * 1000)


def _show(findings: Sequence[Finding], failed: int) -> None:
    rows = [(_MARKS[each.verdict], each.subject, each.found, each.remedy) for each in findings]
    output().print(TextTable(_COLUMNS, rows))
    warned = sum(each.verdict is Verdict.WARNING for each in findings)
    output().print(f"{plural(failed, 'check')} failed, {plural(warned, 'warning')}, of {len(findings)}", markup=False)

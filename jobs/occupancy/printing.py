"""Writes the report of `pid-quota occupancy` as text, JSON or metrics."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, write_to_textfile
from rich.console import Console

from broker.occupancy.acl_owners import OwnerReason
from broker.occupancy.census import OwnersFrom, TakenCensus
from broker.occupancy.census_report import BrokerOutlook, CensusReport, Forecast, WhatIf
from jobs.errors import JobError
from jobs.output.human import plural, size
from jobs.output.terminal import printable
from jobs.output.text_tables import TextTable
from lifecycle.failover import Failover
from lifecycle.occupancy import Census
from lifecycle.occupancy_rate import IDLE
from tables.times import duration, to_time

_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))
_METRICS = {
    "seconds_to_limit": "Seconds until a broker holds more producer ids than the limit.",
    "held_pids": "Producer ids that a broker holds, counted once per partition.",
}
_REASONS = {
    OwnerReason.NO_ACL: "no ACL",
    OwnerReason.EVERYBODY: "everybody may write",
    OwnerReason.SEVERAL: "several principals may write",
    OwnerReason.NOBODY: "nobody may write",
}
_TOP = 20
"""Rows of a table that are printed; --json has all."""
_MORE_UNANSWERED = 5
# A swing that exceeds this share of `settles_at` is printed.
_MUCH = 0.05


def print_report(console: Console, report: CensusReport, *, limit: int | None) -> None:
    """Print a report."""
    parts = [_by_topic(report), _hanging(report), _record_times(report)]
    parts += [_by_principal(report), _by_broker(report, limit)]
    if report.failovers:
        parts.append(_after_a_death(report.failovers, limit))
    if report.what_if is not None:
        parts.append(_with_other_expiration(report.what_if, report.taken.census))
    for part in chain.from_iterable(parts):
        console.print(printable(part) if isinstance(part, str) else part)


def report_dict(report: CensusReport) -> dict[str, Any]:
    """Return a report as dictionaries and lists."""
    census = report.taken.census
    brokers = [asdict(each) for each in report.brokers]
    what_if = report.what_if and {
        **asdict(report.what_if),
        "lost": [asdict(each) | {"silent": each.silent} for each in report.what_if.lost],
    }
    return {
        "taken_at": to_time(census.taken_at_ms),
        "requests": report.taken.requests,
        "owners_from": report.taken.owners_from.value,
        "unowned": {reason.value: count for reason, count in report.taken.unowned.items()},
        "unanswered": [asdict(each) for each in report.taken.unanswered],
        "is_partial": report.taken.is_partial,
        "down": [{"broker_id": each, "reason": reason} for each, reason in report.taken.down.items()],
        "brokers": [each | each["forecasts"][0] | {"forecasts": each["forecasts"]} for each in brokers],
        "bytes_per_entry": census.bytes_per_entry,
        "occupancy": [asdict(each) | {"estimated_bytes": census.bytes_of(each.held_pids)} for each in report.occupancy],
        "principals": [asdict(each) | {"estimated_bytes": census.bytes_of(each.entries)} for each in report.held],
        "failovers": [asdict(each) for each in report.failovers],
        "what_if": what_if,
        "record_times": [asdict(each) for each in report.record_times],
        "hanging_transactions": [asdict(each) for each in report.hanging],
    }


def occupancy_registry(seconds_to_limit: Mapping[int, float], held_pids: Mapping[int, int]) -> CollectorRegistry:
    """Return the metrics, labelled by broker."""
    registry = CollectorRegistry()
    for (name, text), values in zip(_METRICS.items(), (seconds_to_limit, held_pids), strict=True):
        gauge = Gauge(f"pid_quota_occupancy_{name}", text, ["broker"], registry=registry)
        for broker_id, value in values.items():
            gauge.labels(broker_id).set(value)
    return registry


def write_metrics_file(file: Path, report: CensusReport, now: datetime) -> None:
    """Write a file of metrics for node_exporter's textfile collector."""
    # A broker that never reaches the limit has no metric `seconds_to_limit`.
    reached = {each.broker_id: each.likeliest.limit_reached_at for each in report.brokers}
    seconds = {number: max(0.0, (at - now).total_seconds()) for number, at in reached.items() if at is not None}
    registry = occupancy_registry(seconds, {each.broker_id: each.held_pids for each in report.brokers})
    try:
        write_to_textfile(str(file), registry)
    except OSError as error:
        msg = f"can't write {file} ({error.strerror}): name a file in node_exporter's textfile folder"
        raise JobError(msg) from error


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> TextTable:
    """Return a table whose counts, but not ids, have thousands separators."""
    ids = ("broker", "if it dies")
    cells = (
        [
            f"{value:,}" if isinstance(value, int) and name not in ids else value
            for name, value in zip(columns, row, strict=False)
        ]
        for row in rows
    )
    return TextTable(columns, cells, title=title, right=set(columns[1:]) - {"principal"})


def _by_topic(report: CensusReport) -> Iterator[TextTable | str]:
    columns = ("topic", "principal", "broker", "led_pids", "held_pids", "in transaction", "about")
    rows = []
    for row in report.occupancy[:_TOP]:
        counts = (row.led_pids, row.held_pids, row.open_transactions)
        heap = size(report.taken.census.bytes_of(row.held_pids))
        rows.append((row.topic, row.principal, row.broker_id, *counts, heap))
    yield _table("held now", columns, rows)
    rest = report.occupancy[_TOP:]
    if rest:
        held = sum(row.held_pids for row in rest)
        yield f"and {plural(len(rest), 'more row')} with {held:,} held_pids: see --json"
    yield from _owners(report.taken)
    missing = report.taken.unanswered
    for each in missing[:_MORE_UNANSWERED]:
        yield f"NO ANSWER: broker {each.broker_id}, {each.topic}-{each.partition}: {each.reason}"
    if len(missing) > _MORE_UNANSWERED:
        yield f"NO ANSWER: {plural(len(missing) - _MORE_UNANSWERED, 'more replica')}, see --json"
    if report.taken.is_partial:
        yield "NO ANSWER: topics that brokers hide from this user: READ on all topics is needed"
    yield ""


def _hanging(report: CensusReport) -> Iterator[TextTable | str]:
    if not report.hanging:
        return
    columns = ("topic", "partition", "producer id", "no batch since", "transactional id")
    rows = [
        (each.topic, each.partition, str(each.producer_id), _moment(to_time(each.since_ms)), each.transactional_id)
        for each in report.hanging[:_TOP]
    ]
    yield _table("transactions open for too long", columns, rows)
    yield "their entries never expire, and hold up read_committed consumers: see kafka-transactions.sh find-hanging"
    yield ""


def _record_times(report: CensusReport) -> Iterator[str]:
    """Yield what the times in records do to expiry."""
    for each in report.record_times[:_TOP]:
        if each.old_entries:
            yield (
                f"{each.topic}: {plural(each.old_entries, 'entry', 'entries')} of records older than their producer: "
                "each check expires them, though they may be in use, and the next batch brings them back"
            )
        if each.future_entries:
            until = _moment(to_time(each.newest_ms))
            yield (
                f"{each.topic}: {plural(each.future_entries, 'entry', 'entries')} of records dated up to {until}: they "
                "expire only producer.id.expiration.ms after that time"
            )
    if report.record_times:
        yield "such times are the clients' (message.timestamp.type=CreateTime): they don't show who is in use"
        yield ""


def _owners(taken: TakenCensus) -> Iterator[str]:
    """Yield what this report can't show without the plugin."""
    if taken.owners_from is OwnersFrom.PLUGIN:
        return
    how = "the owners are unknown, because the brokers show no ACLs"
    if taken.owners_from is OwnersFrom.ACLS:
        how = "an owner is the only principal that ACLs let write a topic (super users need no ACL)"
    unowned = [f"{count:,} ({_REASONS[reason]})" for reason, count in taken.unowned.items()]
    more = f"; producer ids without an owner: {', '.join(unowned)}" if unowned else ""
    yield f"no plugin reports who uses the producer ids: {how}{more}"


def _by_principal(report: CensusReport) -> Iterator[TextTable | str]:
    census = report.taken.census
    shown, rest = report.held[:_TOP], report.held[_TOP:]
    rows = ((each.principal, each.producer_ids, each.entries, size(census.bytes_of(each.entries))) for each in shown)
    yield _table("by principal, all brokers", ("principal", "producer ids", "entries", "about"), rows)
    if rest:
        entries = sum(each.entries for each in rest)
        yield f"and {plural(len(rest), 'more principal')} with {entries:,} entries: see --json"
    heap = census.bytes_per_entry
    yield f"an entry is one producer id on one replica of one partition, about {heap} bytes (docs/kip-854.md)"
    yield ""


def _by_broker(report: CensusReport, limit: int | None) -> Iterator[TextTable | str]:
    columns = ["broker", "led_pids", "held_pids", "in transaction", "about", "expiration", "new/h", "in 1 h", "in 24 h"]
    columns += ["settles at"] if limit is None else ["settles at", f"reaches {limit:,}"]
    rows = [_broker_cells(report.taken.census, each, limit) for each in report.brokers]
    rows += [(broker_id, "DOWN") for broker_id in report.taken.down]
    yield _table("brokers, each at its likeliest rate", columns, rows)
    for broker_id, reason in report.taken.down.items():
        yield f"NO ANSWER: broker {broker_id}, its producer ids are unknown: {reason}"
    for each in report.brokers:
        yield from _rates(report.taken.census, each, limit)
    checks = sorted({_duration(each.check_interval_ms) for each in report.brokers})
    yield f"a broker looks for expired producer ids every {', '.join(checks)}"
    times = sorted({_duration(each.transactional_id_expiration_ms) for each in report.brokers})
    yield f"transactional.id.expiration.ms, a different setting: {', '.join(times)}"
    taken_at = to_time(report.taken.census.taken_at_ms)
    for each in report.brokers:
        reached = each.likeliest.limit_reached_at
        if limit is not None and reached is not None and reached <= taken_at:
            yield f"ALERT broker {each.broker_id} holds {each.held_pids:,}, the limit is {limit:,}"
    yield ""


def _broker_cells(census: Census, broker: BrokerOutlook, limit: int | None) -> tuple[object, ...]:
    counts = (broker.broker_id, broker.led_pids, broker.held_pids, broker.open_transactions)
    now = (*counts, size(broker.estimated_bytes), _duration(broker.expiration_ms))
    likeliest = broker.likeliest
    held = (_held(census, each) for each in (likeliest.pids_in_1h, likeliest.pids_in_24h, likeliest.settles_at))
    later = (f"{likeliest.pids_per_hour:,.0f}", *held)
    return (*now, *later) if limit is None else (*now, *later, _moment(likeliest.limit_reached_at))


def _rates(census: Census, broker: BrokerOutlook, limit: int | None) -> Iterator[str]:
    """Yield the rate and error of the likeliest forecast, then the forecasts at other rates."""
    likeliest, *others = broker.forecasts
    is_faster = any(likeliest.pids_per_hour > each.pids_per_hour for each in others)
    yield f"broker {broker.broker_id}: {_rate(likeliest)}{', faster than today, if it continues' if is_faster else ''}"
    for each in others:
        # A recent rate that is usual at this time of day, such as a morning's peak, is not the likeliest.
        which = "today's" if is_faster else "the latest, usual at this time,"
        reached = "" if limit is None else f", reaches {limit:,}: {_moment(each.limit_reached_at)}"
        held = [_held(census, count) for count in (each.pids_in_1h, each.pids_in_24h, each.settles_at)]
        yield (
            f"broker {broker.broker_id}, at {which} {_rate(each)}: {held[0]} in 1 h, "
            f"{held[1]} in 24 h, settles at {held[2]}{reached}"
        )
    if likeliest.rate_source == IDLE:
        yield f"broker {broker.broker_id}: idle times do not show floods of the last hour, but sweeps in --tables do"
    if likeliest.swing > _MUCH * likeliest.settles_at:
        low, high = (round(likeliest.settles_at + sign * likeliest.swing / 2) for sign in (-1, 1))
        yield f"broker {broker.broker_id}: goes up and down from check to check, {low:,} to {high:,}"


def _rate(forecast: Forecast) -> str:
    counted = f"{forecast.rate_pids:,} in {duration(forecast.rate_seconds)}"
    sure = "" if forecast.rate_error is None else f", ± {forecast.rate_error:.0%}"
    return f"{forecast.pids_per_hour:,.0f} an hour by {forecast.rate_source} ({counted}{sure})"


def _after_a_death(deaths: Sequence[Failover], limit: int | None) -> Iterator[TextTable | str]:
    columns = ["if it dies", "broker", "led_pids now", "led_pids then", "held_pids then"]
    columns += [] if limit is None else ["limit"]
    rows: list[tuple[object, ...]] = []
    for death in deaths:
        for each in death.survivors:
            row = (death.dead, each.broker_id, each.led_before, each.led_pids, each.held_pids)
            rows.append(row if limit is None else (*row, "OVER" if each.held_pids >= limit else "ok"))
    yield _table("failover", columns, rows)
    for death in deaths:
        if death.leaderless:
            topic, partition = death.leaderless[0]
            have = f"{plural(len(death.leaderless), 'partition')} {'has' if len(death.leaderless) == 1 else 'have'}"
            yield f"if {death.dead} dies, {have} no leader, {topic}-{partition} among them"
    yield "held_pids do not change: followers already hold the ids of their replicas; only a reassignment moves them"
    yield ""


def _with_other_expiration(what_if: WhatIf, census: Census) -> Iterator[TextTable | str]:
    limit = _duration(what_if.expiration_ms)
    title = f"with producer.id.expiration.ms={what_if.expiration_ms} ({limit})"
    columns = ("broker", "held_pids now", "freed", "about", "kept by open transactions")
    rows = []
    for each in what_if.freed:
        heap = size(census.bytes_of(each.freed_pids))
        rows.append((each.broker_id, each.held_pids, each.freed_pids, heap, each.kept_open))
    yield _table(title, columns, rows)
    lost = ((each.principal, each.producers, each.alive, each.long_lived, each.silent) for each in what_if.lost)
    names = ("principal", "producers", "alive", "long-lived", "silent")
    yield _table("producers that would lose dedup", names, lost)
    yield f"alive: in use elsewhere within {limit}. long-lived: had produced for longer than {limit} before its pause."
    yield "silent: paused or gone, which brokers can't distinguish."
    yield "Transactional producers lose nothing between transactions."
    if not any(each.freed_pids for each in what_if.freed):
        yield f"an expiration of {limit} frees nothing more: entries idle for longer expire anyway"
    yield "to apply it:"
    yield from what_if.commands


def _moment(at: datetime | None) -> str:
    return "never" if at is None else f"{at:%Y-%m-%d %H:%M} UTC"


def _held(census: Census, entries: int) -> str:
    return f"{entries:,} ({size(census.bytes_of(entries))})"


def _duration(ms: int) -> str:
    """Format a duration exactly, in the largest unit that needs no fraction.

    Examples:
        >>> _duration(86_400_000), _duration(5_400_000), _duration(1500)
        ('1 d', '90 min', '1500 ms')
    """
    return next((f"{ms // factor} {unit}" for unit, factor in _UNITS_MS if ms and ms % factor == 0), f"{ms} ms")

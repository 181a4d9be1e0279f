"""Parses records of `pid-quota-reports`, and makes rows of `pid_blocks` (KIP-730) and `producer_inits` (KIP-360)."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from pyspark.sql import SparkSession

from streaming.reports.broker_watch import Dated
from streaming.reports.hold_rows import DatedRecord, DatedReport
from tables.store.engines import SparkEngine
from tables.store.open import open_store
from tables.store.values import RowFilter
from wire.holds import is_of_writer, parse_hold_record
from wire.plugin_reports import BlockReport, HoldReport, InitReport, PluginState, parse_report
from wire.topics import HOLDS, REPORTS

Row = dict[str, Any]

_MAX_LOGGED, _MAX_LOGGED_CHARS = 10, 64

_log = logging.getLogger(__name__)


class TopicRecord(NamedTuple):
    """A record of one of the query's topics.

    Attributes:
        is_hold: Whether it is of `pid-quota-holds`.
        key: The record's key; None for a report, whose key says nothing new.
        appended_ms: When a broker appended it, in ms since the epoch.
    """

    is_hold: bool
    key: bytes | None
    value: bytes | None
    appended_ms: int


@dataclass
class Parsed:
    """The reports of some records, by kind, and the records of holds, in order."""

    states: list[Dated] = field(default_factory=list)
    blocks: list[BlockReport] = field(default_factory=list)
    inits: list[InitReport] = field(default_factory=list)
    holds: list[DatedReport] = field(default_factory=list)
    hold_records: list[DatedRecord] = field(default_factory=list)


class ReportParser:
    """Parses the reports and the holds of one cluster. Other records are ignored, and logged once."""

    def __init__(self, cluster_id: str) -> None:
        """Create the parser for the cluster that the stream reads."""
        self._cluster_id = cluster_id
        self._logged: set[str] = set()

    def parse(self, records: Iterable[TopicRecord]) -> Parsed:
        """Return the reports and the holds in records."""
        parsed = Parsed()
        for record in records:
            if record.is_hold:
                self._parse_hold(record, parsed)
            else:
                self._parse_report(record, parsed)
        return parsed

    def _parse_report(self, record: TopicRecord, parsed: Parsed) -> None:
        report, appended_ms = parse_report(record.value), record.appended_ms
        if report is None:
            self._log_once("", "some records of %s are no reports: they are ignored", REPORTS)
        elif report.cluster_id != self._cluster_id:
            self._log_other_cluster("reports", report.cluster_id, REPORTS)
        elif isinstance(report, PluginState):
            parsed.states.append(Dated(report, appended_ms))
        elif isinstance(report, BlockReport):
            parsed.blocks.append(report)
        elif isinstance(report, HoldReport):
            parsed.holds.append(DatedReport(report, appended_ms))
        else:
            parsed.inits.append(report)

    def _parse_hold(self, record: TopicRecord, parsed: Parsed) -> None:
        if is_of_writer(record.key):
            return
        hold = parse_hold_record(record.key, record.value)
        if hold is None:
            self._log_once("holds", "some records of %s are no holds: they are ignored", HOLDS)
        elif hold.content is not None and hold.content.cluster_id != self._cluster_id:
            self._log_other_cluster("holds", hold.content.cluster_id, HOLDS)
        else:
            parsed.hold_records.append(DatedRecord(hold, record.appended_ms))

    def _log_other_cluster(self, what: str, cluster_id: str, topic: str) -> None:
        self._log_once(
            f"{topic} {cluster_id}",
            "%s of cluster %s in %s are ignored: this stream reads cluster %s",
            *(what, cluster_id[:_MAX_LOGGED_CHARS], topic, self._cluster_id),
        )

    def _log_once(self, key: str, text: str, *arguments: str) -> None:
        if key not in self._logged and len(self._logged) < _MAX_LOGGED:
            self._logged.add(key)
            _log.warning(text, *arguments)


class KnownBlocks:
    """The blocks in the table `pid_blocks`. A plugin that starts reports blocks again, but the table gets each once."""

    def __init__(self, tables: str) -> None:
        """Create an object that reads the table on first use."""
        self._tables = tables
        self._first: set[int] | None = None

    def new(self, spark: SparkSession, blocks: Sequence[BlockReport]) -> list[BlockReport]:
        """Return the blocks that the table lacks, each once.

        Raises:
            TableError: If the table can't be read.
        """
        if not blocks:
            return []
        if self._first is None:
            store = open_store(self._tables, SparkEngine(spark))
            rows = store.read("pid_blocks", RowFilter(columns=("first_producer_id",)))
            self._first = {row["first_producer_id"] for row in rows}
        by_first = {block.first_producer_id: block for block in reversed(blocks)}
        return [by_first[first] for first in sorted(by_first.keys() - self._first)]

    def add(self, blocks: Iterable[BlockReport]) -> None:
        """Note blocks that the table has now."""
        if self._first is not None:
            self._first.update(block.first_producer_id for block in blocks)


def block_row(report: BlockReport) -> Row:
    """Return a block as a row of `pid_blocks`, with the time in milliseconds, and with fields that are no columns."""
    return msgspec.structs.asdict(report) | {"allocated_at": report.timestamp_ms}


def init_row(report: InitReport) -> Row:
    """Return an answer as a row of `producer_inits`, with the time in milliseconds, and fields that are no columns."""
    named = {"answered_at": report.timestamp_ms, "client_id": report.client_id or "", "client_host": report.address}
    return msgspec.structs.asdict(report) | named

"""Reads the plugins' newest states from the end of the topic `pid-quota-reports`."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from broker.errors import BrokerUnreachableError, TopicMissingError
from broker.kafka.offsets import reading
from broker.kafka.topics import admin_client
from wire.plugin_reports import PluginState, parse_report
from wire.topics import REPORTS

LOOK_BACK_MS = 300_000
"""Only records of this time before the newest record are searched. A plugin reports every 10 s."""
MAX_RECORDS = 400_000
"""Largest number of records to read. Most reports are answers to INIT_PRODUCER_ID, of which a flood makes many."""

_PORTION = 20_000
_TIMEOUT_S = 15.0
_WAIT_S = 1.0


@dataclass(frozen=True)
class DatedState:
    """The state of a broker's plugin, and the time at which a broker appended it, in ms since the epoch."""

    state: PluginState
    appended_ms: int


def newest_states(config: Mapping[str, str]) -> dict[int, DatedState]:
    """Return the newest state of each broker's plugin, by broker id: a start, an alive or a stop.

    A broker is missing if its plugin has not reported in the last minutes before the newest report. Reports of other
    clusters do not count. `config` has librdkafka's settings.

    Raises:
        TopicMissingError: If there is no topic of reports.
        BrokerUnreachableError: If the topic can't be read.
    """
    about = admin_client(config).metadata()
    newest: dict[int, DatedState] = {}
    with reading(config, REPORTS, "newest", _TIMEOUT_S) as (consumer, ranges):
        if not ranges:
            msg = (
                f"no topic {REPORTS!r} on {config['bootstrap.servers']}, or this user lacks DESCRIBE on it: "
                "load the plugin into the brokers (docs/plugin.md)"
            )
            raise TopicMissingError(msg)
        for partition, (low, high) in ranges.items():
            oldest_ms = 0
            for begin in range(high - _PORTION, max(low, high - MAX_RECORDS) - _PORTION, -_PORTION):
                records = list(_records(consumer, partition, range(max(low, begin), begin + _PORTION)))
                newest = _states(records, str(about.cluster_id)) | newest
                times = [each.timestamp()[1] for each in records]
                oldest_ms = max(oldest_ms, max(times, default=0) - LOOK_BACK_MS)
                if newest.keys() >= about.brokers.keys() or min(times, default=oldest_ms) < oldest_ms:
                    break
    return newest


def _states(records: Iterable[Message], cluster_id: str) -> dict[int, DatedState]:
    """Return the last state of each broker's plugin in records."""
    reports = ((each, parse_report(each.value())) for each in records)
    return {
        report.broker_id: DatedState(report, message.timestamp()[1])
        for message, report in reports
        if isinstance(report, PluginState) and report.cluster_id == cluster_id
    }


def _records(consumer: Consumer, partition: int, portion: range) -> Iterator[Message]:
    """Yield the records with these offsets, in order. Offsets of transaction markers and deleted records have none."""
    consumer.assign([TopicPartition(REPORTS, partition, portion.start)])
    give_up_at = time.monotonic() + _TIMEOUT_S
    while True:
        for message in consumer.consume(len(portion), _WAIT_S):
            error = message.error()
            if error is not None and not error.retriable():
                raise KafkaException(error)
            # Records of an earlier assignment may still arrive.
            if error is None and (message.offset() or 0) in portion:
                give_up_at = time.monotonic() + _TIMEOUT_S
                yield message
        (at,) = consumer.position([TopicPartition(REPORTS, partition)])
        if at.offset >= portion.stop:
            return
        if time.monotonic() > give_up_at:
            msg = f"topic {REPORTS!r} gave no record in {_TIMEOUT_S:g} s: check that the brokers run, and READ on it"
            raise BrokerUnreachableError(msg)

"""Finds the stream's topics, and what the brokers' plugins say of their cluster."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.errors import TopicMissingError
from broker.kafka.offsets import oldest_record
from broker.kafka.report_tail import newest_states
from broker.kafka.topics import admin_client, require_topic
from jobs import __version__
from jobs.stream.narration import print_line
from streaming.reports.broker_watch import require_long_window
from wire.topics import HOLDS, REPORTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.kafka.config import KafkaConfig
    from streaming.pipeline import StreamOptions

TOPIC_S = 30.0
"""Maximum time to wait for the topic of events."""
_TOPIC_POLL_S = 1.0


@dataclass(frozen=True)
class Cluster:
    """What the stream must know of the cluster that it reads.

    Attributes:
        next_producer_id: The lowest PID that is not handed out yet, as far as the plugins have reported; None if
            unknown.
        has_reports: Whether there is a topic of the plugins' reports.
        has_holds: Whether there is a topic of holds.
    """

    cluster_id: str
    next_producer_id: int | None
    has_reports: bool
    has_holds: bool = True


def find_cluster(kafka: KafkaConfig, options: StreamOptions) -> Cluster:
    """Wait for the topic of events, and return what the plugins say of the cluster.

    Raises:
        TopicMissingError: If the topic does not appear.
        WindowTooShortError: If the window is too short for a plugin's repeat interval.
    """
    has_reports = await_topics(kafka.client(), options.topic)
    states = newest_states(kafka.client()) if has_reports else {}
    versions = {broker: each.state.plugin_version for broker, each in sorted(states.items())}
    if others := version_line(versions, __version__):
        print_line(others, time.time())
    require_long_window((each.state for each in states.values()), options.config.window_ms)
    known = (each.state.next_producer_id for each in states.values())
    next_producer_id = max((each for each in known if each is not None), default=None)
    return Cluster(
        str(admin_client(kafka.client()).metadata().cluster_id),
        next_producer_id,
        has_reports,
        has_topic(kafka.client(), HOLDS),
    )


def version_line(plugins: Mapping[int, str], own: str) -> str:
    """Return a line about plugins of another version than this program, or an empty text.

    Examples:
        >>> version_line({1: "2.0", 2: "1.9", 3: "1.9"}, "2.0")
        'brokers 2, 3 run the plugin 1.9, and this is pid-quota 2.0: copy the jar of `pid-quota broker-jar` to them'
        >>> version_line({1: "2.0"}, "2.0")
        ''
    """
    brokers = defaultdict[str, list[str]](list)
    for broker, version in plugins.items():
        brokers[version].append(str(broker))
    others = [
        f"broker{'s' if len(ids) > 1 else ''} {', '.join(ids)} run{'' if len(ids) > 1 else 's'} the plugin {version}"
        for version, ids in sorted(brokers.items())
        if version != own
    ]
    if not others:
        return ""
    return f"{'; '.join(others)}, and this is pid-quota {own}: copy the jar of `pid-quota broker-jar` to them"


def await_topics(config: Mapping[str, str], topic: str) -> bool:
    """Wait for the topic of events. Return whether there is a topic of reports.

    A plugin that has just been loaded makes both topics.

    Raises:
        TopicMissingError: If there is no topic of events after `TOPIC_S`.
    """
    give_up_at, has_waited = time.monotonic() + TOPIC_S, False
    while not (has_topic(config, topic) and (not has_waited or has_topic(config, REPORTS))):
        if time.monotonic() > give_up_at:
            break
        if not has_waited:
            print_line(f"waits for topic {topic}, which the plugin in the brokers makes", time.time())
            has_waited = True
        time.sleep(_TOPIC_POLL_S)
    if not has_topic(config, topic):
        msg = (
            f"topic {topic!r} does not exist on {config['bootstrap.servers']}, or this user lacks DESCRIBE on it: load "
            "the plugin into the brokers, which makes it (docs/plugin.md)"
        )
        raise TopicMissingError(msg)
    if has_topic(config, REPORTS):
        return True
    print_line(f"no topic {REPORTS}: no plugin says whether it works, or which producer ids are old", time.time())
    return False


def has_topic(config: Mapping[str, str], topic: str) -> bool:
    """Return whether a topic exists and this user may see it."""
    try:
        require_topic(config, topic)
    except TopicMissingError:
        return False
    return True


def learning_end(kafka: KafkaConfig, options: StreamOptions) -> int:
    """Return when the stream's own learning ends, in ms since the epoch; 0 if the topic still has all its records.

    The learning lasts a window from the time of the topic's oldest record. It lasts from now if the topic is empty or
    `options.new_checkpoint` is set.
    """
    now_ms = round(time.time() * 1000)
    if options.new_checkpoint:
        return now_ms + options.config.window_ms
    oldest = oldest_record(kafka.client(), options.topic)
    if oldest.is_first:
        return 0
    return (now_ms if oldest.timestamp_ms is None else oldest.timestamp_ms) + options.config.window_ms

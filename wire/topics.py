"""Names and settings of the project's topics."""

PRODUCE_EVENTS = "produce-events"
"""Topic of the plugins' events (`wire.event_record`)."""
REPORTS = "pid-quota-reports"
"""Topic of the plugins' reports (`wire.plugin_reports`). It has one partition."""

OWN_TOPICS = frozenset({PRODUCE_EVENTS, REPORTS})
"""The topics that the plugins write."""

EVENT_PARTITIONS = 12
"""Default number of partitions of `PRODUCE_EVENTS`."""

NEW_TOPIC_SETTINGS = {"retention.ms": "604800000"}
"""Further settings of a new topic of the plugins. Administrators may change them."""

ENFORCER_TOPIC = "pid-quota-enforcer"
"""Topic and consumer group of the enforcers' lock.

The topic also stores leases (`broker.enforcement.store.lease_topic`) and probes of the brokers' clocks.
"""

COMPACTED = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"}
"""Settings of the compacted topics."""


def topic_settings() -> dict[str, dict[str, str]]:
    """Return the settings that each topic of the plugins must have."""
    # The stream checks the times in events against the broker's time. A cluster's default policy may be `compact`.
    return {
        topic: {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "delete"}
        for topic in (PRODUCE_EVENTS, REPORTS)
    }

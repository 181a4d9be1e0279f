"""Names and settings of the project's topics."""

PRODUCE_EVENTS = "produce-events"
"""Topic of the plugins' events (`wire.event_record`)."""
REPORTS = "pid-quota-reports"
"""Topic of the plugins' reports (`wire.plugin_reports`). It has one partition."""

HOLDS = "pid-quota-holds"
"""Topic of the holds in force (`wire.holds`). It has one partition."""

OWN_TOPICS = frozenset({PRODUCE_EVENTS, REPORTS, HOLDS})
"""The topics that the plugin makes."""

EVENT_PARTITIONS = 12
"""Default number of partitions of `PRODUCE_EVENTS`."""

NEW_TOPIC_SETTINGS = {"retention.ms": "604800000"}
"""Further settings of a new topic of the plugins. Administrators may change them."""


def topic_settings() -> dict[str, dict[str, str]]:
    """Return the settings that each topic must have."""
    # The stream checks the times in events against the broker's time. A cluster's default policy may be `compact`.
    written = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "delete"}
    return {
        PRODUCE_EVENTS: written,
        REPORTS: written,
        HOLDS: {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact,delete"},
    }

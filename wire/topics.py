"""The topics of this project: their names and settings. Says nothing to a broker."""

from __future__ import annotations

PRODUCE_EVENTS = "produce-events"
PRODUCER_INITS = "producer-inits"
PRODUCER_ID_BLOCKS = "producer-id-blocks"
PRODUCER_PRINCIPALS = "producer-principals"
PRODUCE_FAILURES = "produce-failures"
TAP_STATUS = "tap-status"
BROKER_LOGS = "broker-logs"

OWN_TOPICS = frozenset(
    {
        PRODUCE_EVENTS,
        PRODUCER_INITS,
        PRODUCER_ID_BLOCKS,
        PRODUCER_PRINCIPALS,
        PRODUCE_FAILURES,
        TAP_STATUS,
        BROKER_LOGS,
    }
)
"""Topics whose own traffic is never tapped; the same names stand in `log4j2-pid-quota.yaml` (a test compares)."""

INTERNAL_TOPIC_PREFIX = "__"

_PRINCIPALS_MS = str(8 * 24 * 3600 * 1000)

ENFORCER_TOPIC = "pid-quota-enforcer"
"""Topic and consumer group of the lock; its records are leases (`broker.enforcer.lease_topic`) and probes of the
clock."""
ENFORCER_TOPIC_SETTINGS = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"}
"""The time of a record is the broker's: see `broker.enforcer.broker_clock`."""


def is_own_topic(topic: str) -> bool:
    """Whether the tap must leave this topic alone: one of ours, or one of Kafka's internal ones."""
    return topic in OWN_TOPICS or topic.startswith(INTERNAL_TOPIC_PREFIX)


def topic_settings() -> dict[str, dict[str, str]]:
    """Settings of each topic that the tap writes; what is not named is the cluster's default."""
    # The record's own time is the broker's word, against which an event's time is judged.
    log_append_time = {"message.timestamp.type": "LogAppendTime"}
    return {
        PRODUCE_EVENTS: log_append_time,
        PRODUCER_INITS: log_append_time,
        PRODUCER_ID_BLOCKS: log_append_time,
        # Live bindings are announced again and again; those of dead producers go after this time.
        PRODUCER_PRINCIPALS: log_append_time | {"cleanup.policy": "compact,delete", "retention.ms": _PRINCIPALS_MS},
        PRODUCE_FAILURES: log_append_time,
        TAP_STATUS: log_append_time | {"cleanup.policy": "compact"},
    }

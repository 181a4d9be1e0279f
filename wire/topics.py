"""Names and settings of the project's topics."""

PRODUCE_EVENTS = "produce-events"
PRODUCER_INITS = "producer-inits"
PRODUCER_ID_BLOCKS = "producer-id-blocks"
TAP_STATUS = "tap-status"
BROKER_LOGS = "broker-logs"

OWN_TOPICS = frozenset(
    {
        PRODUCE_EVENTS,
        PRODUCER_INITS,
        PRODUCER_ID_BLOCKS,
        TAP_STATUS,
        BROKER_LOGS,
    }
)

ENFORCER_TOPIC = "pid-quota-enforcer"
"""Topic and consumer group of the lock; holds leases (`broker.enforcement.store.lease_topic`) and clock probes."""

LEARNING_REQUESTS = "pid-quota-requests"
"""Streams request of taps to ask the brokers (`wire.records.LearningRequest`)."""
COMPACTED = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"}
"""Settings of our compacted topics."""


def is_own_topic(topic: str) -> bool:
    """Whether `pid-quota tap poll` must ignore this topic: one of ours, or internal to Kafka."""
    return topic in OWN_TOPICS or topic.startswith("__")


def topic_settings() -> dict[str, dict[str, str]]:
    """Settings of each topic that the tap writes; others are the cluster's defaults."""
    # Broker time, against which events' own times are checked.
    log_append_time = {"message.timestamp.type": "LogAppendTime"}
    events = dict.fromkeys((PRODUCE_EVENTS, PRODUCER_INITS, PRODUCER_ID_BLOCKS), log_append_time)
    return {**events, TAP_STATUS: COMPACTED}

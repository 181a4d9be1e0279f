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
"""Topic and consumer group of the enforcers' lock.

The topic also stores leases (`broker.enforcement.store.lease_topic`) and probes of the brokers' clocks.
"""

LEARNING_REQUESTS = "pid-quota-requests"
"""Topic of the requests of streams (`wire.records.LearningRequest`)."""
COMPACTED = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"}
"""Settings of the compacted topics."""


def is_own_topic(topic: str) -> bool:
    """Whether `pid-quota tap poll` must ignore a topic, because pid-quota or Kafka writes to it with producer ids."""
    return topic in OWN_TOPICS or topic.startswith("__")


def topic_settings() -> dict[str, dict[str, str]]:
    """Return the settings of each topic that the tap writes."""
    # The stream checks the times in events against the broker's time.
    log_append_time = {"message.timestamp.type": "LogAppendTime"}
    events = dict.fromkeys((PRODUCE_EVENTS, PRODUCER_INITS, PRODUCER_ID_BLOCKS), log_append_time)
    return {**events, TAP_STATUS: COMPACTED}

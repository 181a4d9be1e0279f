"""Spark schemas of the fields that the stream reads from the taps' records (`wire.records`, `wire.heartbeat`)."""

HEARTBEAT_COLUMNS = (
    "timestamp_ms BIGINT, broker_id INT, host STRING, tap_id STRING, source STRING, "
    "counters STRUCT<lines: BIGINT, events: BIGINT>, "
    "behind_bytes BIGINT, newest_line_ms BIGINT, stopped BOOLEAN, problem STRING, "
    "position STRUCT<offset: BIGINT>, cluster_brokers ARRAY<INT>"
)

ID_BLOCK_COLUMNS = "timestamp_ms BIGINT, broker_id INT, broker_epoch BIGINT, first_producer_id BIGINT, length INT"
INIT_COLUMNS = (
    "timestamp_ms BIGINT, broker_id INT, principal STRING, client_id STRING, client_host STRING, "
    "transactional_id STRING, producer_id BIGINT, producer_epoch INT, result_producer_id BIGINT, "
    "result_producer_epoch INT, error STRING, repeated BOOLEAN"
)

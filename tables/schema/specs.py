"""Columns, types and comments of every Delta table."""

from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

SinkName = Literal["deltalake", "delta-spark"]
"""The programs that can write the tables."""

_TIME = pa.timestamp("us", tz="UTC")
_COUNTS = pa.map_(pa.string(), pa.int64())
VERSION_PROPERTY = "pidQuota.tablesVersion"
"""Table property with `TABLES_VERSION` of the release that created the table."""
LOG_RETENTION_PROPERTY = "delta.logRetentionDuration"
LOG_RETENTION = "interval 6 hours"
"""Log retention of tables without a catalog. It is short, because Spark lists the log in every batch."""
_MAX_RATE = 1_000_000_000_000
"""`quota.allowance.MAX_PRODUCER_IDS_RATE` as an SQL literal. NaN and infinity are not below this limit."""


@dataclass(frozen=True)
class TableSpec:
    """One Delta table.

    Attributes:
        schema: Columns, with a `comment` in each field's metadata.
        constraints: SQL expressions of CHECK constraints, by name.
        time_column: Column with the event time by which rows expire; empty if rows never expire.
        keep_days: Default retention of `pid-quota tables maintain` in days; 0 keeps rows forever.
        least_days: Minimum retention: the days that views and commands look back.
        cluster_by: Columns by which a catalog clusters the table.
    """

    name: str
    comment: str
    schema: pa.Schema
    constraints: dict[str, str] = field(default_factory=dict)
    time_column: str = ""
    keep_days: int = 0
    least_days: int = 1
    cluster_by: tuple[str, ...] = ()


def _required(name: str, kind: pa.DataType, comment: str) -> pa.Field:
    return pa.field(name, kind, nullable=False, metadata={"comment": comment})


def _column(name: str, kind: pa.DataType, comment: str) -> pa.Field:
    return pa.field(name, kind, metadata={"comment": comment})


_QUOTAS = TableSpec(
    "producer_id_quotas",
    "A quota per row. If an entity has several rows, the one with the greatest updated_at is in force.",
    pa.schema(
        [
            _required("entity_type", pa.string(), "Always 'user'."),
            _column("entity_name", pa.string(), "Bare user name without 'User:'; null is the default quota."),
            _required("producer_ids_rate", pa.float64(), "New producer ids per window, above 0 and below 1e12."),
            _column(
                "producer_ids_burst", pa.float64(), "New producer ids at once; null for the rate times burst_windows."
            ),
            _required("updated_at", _TIME, "When the quota was last set."),
            _column("updated_by", pa.string(), "Who set the quota."),
        ]
    ),
    {
        "producer_ids_rate_in_range": f"producer_ids_rate > 0 AND producer_ids_rate < {_MAX_RATE}",
        "producer_ids_burst_in_range": (
            f"producer_ids_burst IS NULL OR (producer_ids_burst > 0 AND producer_ids_burst < {_MAX_RATE})"
        ),
        "entity_type_is_user": "entity_type = 'user'",
    },
)

_METRICS = TableSpec(
    "producer_id_metrics",
    "A row per principal and metrics interval, written again in each batch in which the principal has new producer "
    "ids. Of the rows with the same principal and window_end, the row with the greatest as_of, then "
    "batch_id, has the final counts. The view principal_metrics picks it. A principal without events writes no row.",
    pa.schema(
        [
            _column("principal", pa.string(), "KafkaPrincipal, such as User:alice."),
            _column("window_end", _TIME, "End of the metrics interval, in event time."),
            _column("as_of", _TIME, "Event time up to which this row counts, and of its tokens and throttle time."),
            _column("rate", pa.float64(), "Kafka's sampled rate (KIP-936), averaged over 10 to 11 windows."),
            _column("tokens", pa.float64(), "Tokens left at as_of, below 0 when exhausted; null without a quota."),
            _column("throttle_time_ms", pa.int64(), "Milliseconds from as_of until tokens reach 0; 0 unless below 0."),
            _column(
                "throttle_time_avg_ms",
                pa.float64(),
                "Mean throttle time in milliseconds over the last window (KIP-936's throttle-time).",
            ),
            _column("new_pids_window", pa.int64(), "Admitted and distinct refused producer ids of the last window."),
            _column("quota", pa.float64(), "Quota in force, new producer ids per window; null without a quota."),
            _column("burst", pa.float64(), "Tokens of a full bucket: new producer ids at once."),
            _column("quota_source", pa.string(), "Where the quota comes from: user, default or none."),
            _column("admitted_pids", pa.int64(), "Producer ids admitted so far in this interval (cumulative)."),
            _column("refused_pids", pa.int64(), "Distinct producer ids refused so far in this interval (cumulative)."),
            _column(
                "owed_pids",
                pa.int64(),
                "Refused producer ids that took a token in this interval, and are known from then on (cumulative).",
            ),
            _column("late_pids", pa.int64(), "Late producer ids since the previous row, not charged. Not cumulative."),
            _column("active_pids", pa.int64(), "Producer ids remembered now."),
            _column("layers", pa.int32(), "Bloom filter layers that have not expired."),
            _column("state_bytes", pa.int64(), "Size of the principal's state in bytes."),
            _column("phase", pa.string(), "learning, or enforcing."),
            _column("saturated", pa.bool_(), "Whether the state reached its cap and no longer stores unseen ids."),
            _column(
                "pid_uses",
                pa.string(),
                "When at most 64 of the producer ids were used: for each its number, the first use (0 if it "
                "may be older than the plugin's watch) and the last one in ms since the epoch, and the client id. "
                "Semicolons separate ids, spaces the rest. Null if nothing has changed. The view used_pids splits it.",
            ),
            _column("pid_uses_one_in", pa.int64(), "pid_uses has one of this many new producer ids; null without."),
            _column("batch_id", pa.int64(), "Micro-batch that wrote the row."),
        ]
    ),
    time_column="window_end",
    keep_days=30,
    least_days=2,
    cluster_by=("window_end", "principal"),
)

_DECISIONS = TableSpec(
    "throttle_decisions",
    "A THROTTLE or a RELEASE per row. A principal's newest row is in force. A throttle ends at throttled_until: the "
    "RELEASE row only records this, and comes with the principal's next event.",
    pa.schema(
        [
            _column("decision_id", pa.string(), "Id of the decision. A repeated batch writes the same id."),
            _column("principal", pa.string(), "KafkaPrincipal, such as User:alice."),
            _column("action", pa.string(), "THROTTLE or RELEASE."),
            _column("decided_at", _TIME, "Event time of the decision; of a RELEASE, when the throttle ended."),
            _column("throttle_time_ms", pa.int64(), "Milliseconds from decided_at until tokens reach 0 again."),
            _column("throttled_until", _TIME, "When the throttle ends, unless a later row changes it."),
            _column("tokens", pa.float64(), "Tokens at decided_at."),
            _column("rate", pa.float64(), "Kafka's sampled rate, averaged over 10 to 11 windows."),
            _column("quota", pa.float64(), "Quota in force, new producer ids per window."),
            _column("burst", pa.float64(), "Tokens of a full bucket: new producer ids at once."),
            _column("quota_source", pa.string(), "Where the quota comes from: user, default or none."),
            _column("quota_updated_at", _TIME, "When the quota was last set."),
            _column("refused_pids", pa.int64(), "Distinct producer ids refused in the episode so far."),
            _column("sample_pids", pa.list_(pa.int64()), "The first few refused producer ids."),
            _column("client_ids", _COUNTS, "Refused ids per client.id, for at most 16; the rest are under other."),
            _column("addresses", _COUNTS, "Refused ids per known address, for at most 16; the rest are under other."),
            _column(
                "reason", pa.string(), "over_quota, throttle_ended, or quota_changed: the quota was raised or removed."
            ),
            _column("batch_id", pa.int64(), "Micro-batch that wrote the row."),
        ]
    ),
    time_column="decided_at",
    keep_days=90,
    least_days=2,
    cluster_by=("decided_at", "principal"),
)

_QUARANTINE = TableSpec(
    "quarantined_events",
    "An input record that is not a valid event. After 1,000 in a task, one in 1,000 is kept. A row counts the rest.",
    pa.schema(
        [
            _column("value", pa.binary(), "The record's value, truncated to 4,096 bytes."),
            _column("reason", pa.string(), "What is wrong with the record."),
            _column("topic", pa.string(), "Topic of the record."),
            _column("partition", pa.int32(), "Partition of the record."),
            _column("offset", pa.int64(), "Offset of the record."),
            _column("record_timestamp", _TIME, "Kafka's own timestamp of the record."),
            _column("batch_id", pa.int64(), "Micro-batch that wrote the row."),
        ]
    ),
    time_column="record_timestamp",
    keep_days=14,
    cluster_by=("record_timestamp",),
)

_HOLDS = TableSpec(
    "holds",
    "A fact about a hold per row: from a record of the topic pid-quota-holds, from a broker's report, or from the "
    "stream's plan. The view holds_now tells who is on hold.",
    pa.schema(
        [
            _column("recorded_at", _TIME, "When the record or the report was appended, or the stream planned."),
            _column(
                "state",
                pa.string(),
                "Records: written, removed, released, release_ended. Brokers' reports: in_force, ended, ignored. The "
                "stream's plan: would_hold (it runs without --enforce), left_out.",
            ),
            _column("principal", pa.string(), "KafkaPrincipal; null in a release of everybody."),
            _column("decision_id", pa.string(), "The decision in throttle_decisions; null for a hold by hand."),
            _column("broker_id", pa.int32(), "Broker that reported; null for records and for the plan."),
            _column("since", _TIME, "When the hold came into force on the broker; null for records and for the plan."),
            _column("until", _TIME, "When the hold, the release or the plan ends, unless a later row changes it."),
            _column("writer", pa.string(), "Id of the stream, or the person, that wrote the hold or the release."),
            _column("reason", pa.string(), "Why there is a hold, why it ended, or why there is none."),
            _column("init_every_ms", pa.int64(), "Each broker lets in one request for a new id per this time."),
            _column("held_requests", pa.int64(), "Requests that the broker has refused because of the hold so far."),
            _column("let_in", pa.int64(), "Requests for a new producer id that the broker has let in so far."),
            _column("batch_id", pa.int64(), "Micro-batch that wrote the row."),
        ]
    ),
    time_column="recorded_at",
    keep_days=90,
    least_days=2,
    cluster_by=("recorded_at", "principal"),
)

_BROKER_STATUS = TableSpec(
    "broker_status",
    "A row per broker and batch, with the newest report of the broker's plugin. If reported_at is null, the cluster "
    "has the broker, but no plugin of it reports.",
    pa.schema(
        [
            _column("broker_id", pa.int32(), "Node id of the broker."),
            _column("seen_at", _TIME, "When a plugin last saw that the cluster has this broker."),
            _column("reported_at", _TIME, "When the broker's plugin reported; null if none reports."),
            _column("run", pa.string(), "Random id of the plugin's run."),
            _column("plugin_version", pa.string(), "Version of the plugin."),
            _column("kafka_version", pa.string(), "Version of the broker."),
            _column("events", pa.int64(), "Produce events delivered since the run's start."),
            _column("dropped_events", pa.int64(), "Produce events that the plugin lost since the run's start."),
            _column("waiting_pids", pa.int64(), "Producer ids whose event is not delivered yet."),
            _column("next_producer_id", pa.int64(), "Lowest producer id that is not handed out yet; null if unknown."),
            _column("repeat_ms", pa.int64(), "The plugin writes a producer id in use once in this time."),
            _column("has_authorizer", pa.bool_(), "Whether the broker's authorizer is that of the plugin."),
            _column("problem", pa.string(), "Why the plugin sees or delivers nothing; null if it does."),
            _column("stopped", pa.bool_(), "Whether this is the last report of the run."),
            _column("batch_id", pa.int64(), "Micro-batch that wrote the row."),
        ]
    ),
    time_column="seen_at",
    keep_days=7,
    cluster_by=("seen_at", "broker_id"),
)

_BLOCKS = TableSpec(
    "pid_blocks",
    "A block of producer ids that the controller gave to a broker. Each block has one row.",
    pa.schema(
        [
            _column("broker_id", pa.int32(), "Broker that asked for the block."),
            _column("broker_epoch", pa.int64(), "Epoch of the broker, which a restart changes."),
            _column("first_producer_id", pa.int64(), "Lowest id of the block."),
            _column("length", pa.int32(), "Number of ids in the block."),
            _column("allocated_at", _TIME, "When the controller allocated the block."),
            _column("batch_id", pa.int64(), "Micro-batch that wrote the row."),
        ]
    ),
    time_column="allocated_at",
    # A producer id may be new in a topic years after its block was allocated.
    keep_days=0,
    cluster_by=("allocated_at", "broker_id"),
)

_INITS = TableSpec(
    "producer_inits",
    "An answer to INIT_PRODUCER_ID, with the request's values. The view classified_inits adds the outcome.",
    pa.schema(
        [
            _column("answered_at", _TIME, "When the broker answered."),
            _column("broker_id", pa.int32(), "Broker that answered."),
            _column("principal", pa.string(), "Who asked, such as User:alice."),
            _column("client_id", pa.string(), "Client id, which the client chooses freely."),
            _column("client_host", pa.string(), "Address of the client."),
            _column("transactional_id", pa.string(), "Transactional id; null for an idempotent producer without one."),
            _column("producer_id", pa.int64(), "Producer id that the client already had; -1 if none."),
            _column("producer_epoch", pa.int32(), "Epoch of that producer id; -1 if none."),
            _column("result_producer_id", pa.int64(), "Producer id in the answer; -1 on an error."),
            _column("result_producer_epoch", pa.int32(), "Epoch in the answer; -1 on an error."),
            _column("error", pa.string(), "NONE, or the name of Kafka's error."),
            _column("batch_id", pa.int64(), "Micro-batch that wrote the row."),
        ]
    ),
    time_column="answered_at",
    keep_days=30,
    cluster_by=("answered_at", "principal"),
)

_OCCUPANCY = TableSpec(
    "producer_occupancy",
    "The entries that a broker held for a principal's producers in a topic when a sweep asked it. An entry is one "
    "producer id in one partition. A broker without entries has one row without topic and principal.",
    pa.schema(
        [
            _column("swept_at", _TIME, "When the sweep began; the same in all of its rows."),
            _column("broker_id", pa.int32(), "Broker that held the entries."),
            _column("topic", pa.string(), "Topic of the entries' partitions."),
            _column("principal", pa.string(), "Principal of the producers, or unknown if nobody reported it."),
            _column("led_pids", pa.int64(), "Entries of partitions that the broker led."),
            _column("held_pids", pa.int64(), "Entries of all replicas of the broker, including followers."),
            _column("open_transactions", pa.int64(), "Held entries with an open transaction, which never expire."),
            _column("idle_hours", pa.list_(pa.int64()), "Held entries by whole hours since their last batch."),
            _column("estimated_bytes", pa.int64(), "Estimated heap of the held entries."),
            _column("expiration_ms", pa.int64(), "The broker's producer.id.expiration.ms during the sweep."),
            _column("missing_replicas", pa.int32(), "Replicas of the broker that did not answer."),
        ]
    ),
    time_column="swept_at",
    keep_days=30,
    least_days=2,
    cluster_by=("swept_at", "broker_id"),
)

TABLES_VERSION = 1
"""Version of all tables. A release writes no tables with a greater version, and ignores unknown nullable columns."""

TABLES: dict[str, TableSpec] = {
    spec.name: spec
    for spec in (_QUOTAS, _METRICS, _DECISIONS, _QUARANTINE, _HOLDS, _BROKER_STATUS, _BLOCKS, _INITS, _OCCUPANCY)
}

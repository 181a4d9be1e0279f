"""The whole flow on one screen: produce events in, decisions and metrics out.

Kafka ─▶ decode and tally ─▶ join quotas ─▶ one ledger per principal ─▶ Delta tables
"""

from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast, expr
from pyspark.sql.streaming import StreamingQuery

from quota.config import QuotaConfig
from quota.limits import MAX_PRODUCER_IDS_RATE
from quota.principals import NEVER_ENFORCED
from state.events import Deployment, Scope
from streaming.identity import load_or_create
from streaming.operator import OUTPUT_SCHEMA, STATE_SCHEMA, operate
from streaming.records import Contract
from streaming.sinks import Commit, DeltaSink
from streaming.tables import is_catalog, table_path
from streaming.tally import TALLY_SCHEMA, tally

AVAILABLE_NOW = "available-now"


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """What a stream reads, where it writes, and by which rules.

    Attributes:
        topic: Topic of produce events.
        kafka_options: Options of Spark's Kafka source, `kafka.bootstrap.servers` among them.
        tables: Folder of path tables, or `catalog.schema`.
        checkpoint: Folder of the checkpoint.
        trigger: Interval such as '5 seconds', or `available-now`: read what is there, then end.
        learn_until_ms: At the first start only: until this event time unseen PIDs are not charged.
        max_offsets_per_trigger: Most records of a micro-batch.
        max_clock_skew_ms: How far an event may be ahead of its record's own time.
        never_enforced: Principals whose quota is never applied.
        scope: Whether a principal has one budget for the cluster, or one per broker.
        config: The settings of the rules.
    """

    topic: str
    kafka_options: dict[str, str] = field(repr=False)
    tables: str
    checkpoint: str
    trigger: str = "5 seconds"
    learn_until_ms: int = 0
    max_offsets_per_trigger: int = 500_000
    max_clock_skew_ms: int = 300_000
    never_enforced: frozenset[str] = NEVER_ENFORCED
    scope: Scope = "cluster"
    config: QuotaConfig = field(default_factory=QuotaConfig)


def start(spark: SparkSession, options: StreamOptions) -> StreamingQuery:
    """Start the stream.

    Raises:
        CheckpointError: If the checkpoint can't be used with these settings.
    """
    identity = load_or_create(options.checkpoint, options.config, options.scope, options.learn_until_ms)
    deployment = Deployment(options.config, identity.salt, identity.learn_until_ms, options.scope)

    records = read_records(spark, options)
    tallies = tally_records(records, options)
    limited = join_quotas(tallies, latest_quotas(spark, options.tables))
    output = apply_rules(limited, deployment, options.never_enforced)
    return write(output, options, Commit(DeltaSink(options.tables, identity.stream_id)))


def read_records(spark: SparkSession, options: StreamOptions) -> DataFrame:
    """Read the topic: value, topic, partition, offset and the record's own time in milliseconds."""
    source = spark.readStream.format("kafka").options(**options.kafka_options)
    records = (
        source.option("subscribe", options.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", options.max_offsets_per_trigger)
        .load()
    )
    return records.selectExpr("value", "topic", "partition", "offset", "unix_millis(timestamp) AS record_ms")


def tally_records(records: DataFrame, options: StreamOptions) -> DataFrame:
    """Decode the records and tally them: one row per principal and task."""
    contract = Contract(options.max_clock_skew_ms, needs_broker=options.scope == "broker")
    function = partial(tally, options.config.quantum_ms, contract)
    return records.mapInArrow(function, TALLY_SCHEMA)


def latest_quotas(spark: SparkSession, tables: str) -> DataFrame:
    """Return one row per quota entity (`entity_name` null is the default), as of each micro-batch."""
    reader = spark.read.format("delta")
    name = "producer_id_quotas"
    quotas = spark.read.table(f"{tables}.{name}") if is_catalog(tables) else reader.load(table_path(tables, name))
    return (
        quotas.where("entity_type = 'user'")
        .where(f"producer_ids_rate > 0 AND producer_ids_rate < {MAX_PRODUCER_IDS_RATE:.0f}")
        .groupBy("entity_name")
        .agg(expr("max_by(producer_ids_rate, updated_at) AS rate"), expr("max(updated_at) AS updated_at"))
    )


def join_quotas(tallies: DataFrame, quotas: DataFrame) -> DataFrame:
    """Add `quota`, `quota_source` and `quota_updated_ms`: user, then default, then none."""
    users = quotas.where("entity_name IS NOT NULL").toDF("entity_name", "user_rate", "user_updated")
    # A global aggregate always has one row: without a default, a join with the row itself would silence the stream.
    default = quotas.where("entity_name IS NULL").selectExpr(
        "max(rate) default_rate", "max(updated_at) default_updated"
    )
    entity = "entity_name <=> substring(principal, instr(principal, ':') + 1)"
    return (
        tallies.join(broadcast(users), expr(entity), "left")
        .crossJoin(broadcast(default))
        .selectExpr(
            "principal",
            "packed",
            "coalesce(user_rate, default_rate) AS quota",
            "CASE WHEN user_rate IS NOT NULL THEN 'user' WHEN default_rate IS NOT NULL THEN 'default' ELSE 'none' END"
            " AS quota_source",
            "unix_millis(CASE WHEN user_rate IS NOT NULL THEN user_updated ELSE default_updated END)"
            " AS quota_updated_ms",
        )
    )


def apply_rules(limited: DataFrame, deployment: Deployment, never_enforced: frozenset[str]) -> DataFrame:
    """Give each principal's ledger its events: rows of decisions, metrics and quarantined records come out."""
    function = partial(operate, deployment, never_enforced)
    grouped = limited.groupBy("principal")
    return grouped.applyInPandasWithState(function, OUTPUT_SCHEMA, STATE_SCHEMA, "append", "ProcessingTimeTimeout")


def write(output: DataFrame, options: StreamOptions, commit: Commit) -> StreamingQuery:
    """Write each micro-batch by a numbered commit."""
    writer = output.writeStream.queryName("pid-quota").foreachBatch(commit).outputMode("append")
    writer = writer.option("checkpointLocation", options.checkpoint)
    if options.trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=options.trigger).start()

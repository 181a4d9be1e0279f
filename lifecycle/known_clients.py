"""Clients of popular tools: how they name themselves, what is healthy there, and the fix that exists there.

The names come from the tools' sources. `#` stands for generated parts, as in the view `recent_inits`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class KnownClient:
    """A client of a tool.

    Attributes:
        client: Regular expression of the client ids.
        transactional_id: Regular expression of the transactional ids; empty if the tool uses none.
        names_anew: Whether each start takes new transactional ids by design. Then nobody can reuse them.
        healthy: What the tool does while nothing is wrong, in one sentence.
        fixes: What to do in the tool, by the value of the kind of churn (`lifecycle.churn.Churn`).
    """

    tool: str
    client: str
    transactional_id: str
    healthy: str
    names_anew: bool = False
    fixes: Mapping[str, str] = field(default_factory=dict)


KNOWN_CLIENTS = (
    # Kafka: connect/runtime Worker.java (connector-producer-, taskTransactionalId, fenceZombies) and
    # DistributedConfig.java (transactionalProducerId). MirrorMaker's and Debezium's connectors run in these producers.
    KnownClient(
        "MirrorMaker",
        r"^connector-producer-Mirror(Source|Checkpoint|Heartbeat)Connector-",
        "",
        "Each task opens one producer at its start.",
        fixes={"restart loop": "See the task's trace by the REST interface, and its errors.retry.timeout."},
    ),
    KnownClient(
        "Kafka Connect",
        r"^connector-producer-|^connector-worker-adminclient-|^connect-cluster-",
        r"^connect-cluster-|-\d+$",
        "At each new configuration of an exactly-once source, the leader fences each task's transactional id, then the "
        "task takes it again (KIP-618); both cost an epoch, no producer id.",
        fixes={
            "restart loop": "See the task's trace (GET /connectors/NAME/status), and stop what restarts failed tasks.",
            "fencing war": "Give each Connect cluster a group.id of its own: two clusters with one fence each other.",
            "expired while idle": "Raise transactional.id.expiration.ms of the brokers above the longest pause of the "
            "connector.",
        },
    ),
    # Debezium: HistorizedRelationalDatabaseConnectorConfig.java (-schemahistory).
    KnownClient(
        "Debezium",
        r"-schemahistory$",
        "",
        "Each start of a connector opens one producer for the history of its schema.",
        fixes={"restart loop": "See the connector's log for the error that ends its task."},
    ),
    # Kafka: streams ClientUtils.java (-StreamThread-N-producer) and StreamsProducer.java (transactional ids from the
    # process id and the thread).
    KnownClient(
        "Kafka Streams",
        r"-StreamThread-(\d+|#)(-\d+_\d+)?-producer$",
        r"^.+-[0-9a-f]{8}-[0-9a-f-]{27}-\d+$",
        "Each start opens a producer per thread, and with exactly-once a new transactional id per thread.",
        names_anew=True,
        fixes={
            "restart loop": "Handle the exception in StreamsUncaughtExceptionHandler: REPLACE_THREAD opens a producer.",
            "new transactional id each time": "Keep the state directory across restarts, so that the process id stays.",
        },
    ),
    # Iceberg: IcebergSinkConnector.java (-txn-UUID-) and Channel.java (worker, coordinator). The clients have Java's
    # default id, producer-TRANSACTIONAL_ID (ProducerConfig.java).
    KnownClient(
        "Iceberg's sink",
        r"(worker|coordinator)-txn-",
        r"(worker|coordinator)-txn-",
        "Each start or new configuration of the connector takes a new transactional id per task and one more.",
        names_anew=True,
        fixes={"restart loop": "See the trace of the connector's tasks: each restart takes new ids."},
    ),
    # Flink: flink-connector-kafka TransactionalIdFactory.java (PREFIX-SUBTASK-OFFSET) and
    # TransactionNamingStrategyImpl.java (INCREMENTING, POOLING).
    KnownClient(
        "Flink's KafkaSink",
        r"^producer-.+-\d+-#$",
        r"^.+-\d+-\d+$",
        "A pool of transactional ids per subtask is used in turn (POOLING): each use costs an epoch, no producer id.",
        fixes={
            "new transactional id each time": "Choose setTransactionNamingStrategy(TransactionNamingStrategy.POOLING) "
            "(connector 4.0); INCREMENTING takes a new id at each checkpoint and subtask.",
        },
    ),
    # Spark: connector/kafka-0-10-sql InternalKafkaProducerPool.scala and package.scala (the cache's timeout).
    KnownClient(
        "Spark's Kafka sink",
        r"^(spark-)?producer-#$",
        "",
        "Each executor keeps a producer per set of options, and closes it after ten idle minutes.",
        fixes={
            "producer per message/batch": "With Spark, raise spark.kafka.producer.cache.timeout (10m) above the "
            "trigger's interval.",
        },
    ),
)


def known_client(client: str, transactional_id: str | None = None) -> KnownClient | None:
    """Return the tool whose names a client has; None for other clients.

    Java's default client ids fit several tools, so `transactional_id` has to fit, too, if the tool uses one.

    Examples:
        >>> known_client("connector-producer-orders-#").tool
        'Kafka Connect'
        >>> known_client("app") is None
        True
    """
    for each in KNOWN_CLIENTS:
        if re.search(each.client, client) and (
            transactional_id is None or not each.transactional_id or re.search(each.transactional_id, transactional_id)
        ):
            return each
    return None

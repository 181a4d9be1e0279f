"""Remedies for each kind of churn, for each client library."""

from dataclasses import dataclass

from lifecycle.churn import Churn


@dataclass(frozen=True)
class Fix:
    """A remedy, one sentence each.

    Attributes:
        java: For Kafka's Java client.
        python: For confluent-kafka or kafka-python.
        librdkafka: For librdkafka and clients built on it.
    """

    summary: str
    java: str
    python: str
    librdkafka: str


_NO_CHANGE = (
    "Nothing to change: one KafkaProducer per process is right.",
    "Nothing to change: one Producer per process is right.",
    "Nothing to change: one handle per process is right.",
)
FIXES: dict[Churn, Fix] = {
    Churn.PER_MESSAGE: Fix(
        "Open one producer when the process starts, share it, and close it when the process ends.",
        "One KafkaProducer per process (it is thread-safe); send() with it and close() it in a shutdown hook.",
        "Make the Producer once at module or worker start, call produce() and poll() on it, flush() before exit; "
        "in forked workers make it after the fork.",
        "Call rd_kafka_new() once, rd_kafka_producev() from any thread, rd_kafka_flush() before rd_kafka_destroy().",
    ),
    Churn.RESTART_LOOP: Fix(
        "Find out why the process ends (its own log, the supervisor's exit code) and let the supervisor wait longer.",
        "Log the exception that ends main() before close(); wait longer between restarts, or stop after a few.",
        "Log the exception before the interpreter ends; a worker pool's max-requests limit restarts it as well.",
        "Set error_cb and log RD_KAFKA_RESP_ERR__FATAL before abort(); keep core dumps.",
    ),
    Churn.ON_ERROR: Fix(
        "Handle the error instead of asking for a new producer id: most are retried by the client itself.",
        "Keep the KafkaProducer on RetriableException; abortTransaction() on an abortable error; close only on a "
        "fatal one (ProducerFencedException), and then ask why two instances share a transactional.id.",
        "Keep the Producer if error.retriable() and abort_transaction() if error.txn_requires_abort(); make a new one "
        "only if error.fatal(); and fix what is refused (message size, ACLs).",
        "Keep the handle unless rd_kafka_error_is_fatal(); permanent failures (MSG_SIZE_TOO_LARGE, "
        "TOPIC_AUTHORIZATION_FAILED) make an idempotent producer request a new id each time, so fix their cause.",
    ),
    Churn.LEAK: Fix(
        "Open one producer when the process starts and share it; close those no longer needed.",
        "One KafkaProducer per process (it is thread-safe); close() whatever a request or a session opened.",
        "Make the Producer once at module or worker start; keep none per request, session or topic.",
        "Call rd_kafka_new() once; rd_kafka_destroy() each handle no longer used.",
    ),
    Churn.FENCING_WAR: Fix(
        "Give each running instance a transactional.id of its own, or make sure that only one instance runs.",
        "The instance's stable name in transactional.id; after a ProducerFencedException end, do not begin again.",
        "The instance's stable name in transactional.id; if error.code() is _FENCED end, do not begin again.",
        "The instance's stable name in transactional.id; on RD_KAFKA_RESP_ERR__FENCED end, do not begin again.",
    ),
    Churn.NEW_TRANSACTIONAL_ID: Fix(
        "Reuse a small set of transactional ids: each new one costs a producer id, a known one only an epoch.",
        "A transactional.id from a stable name of the instance; in Flink choose transaction naming POOLING instead of "
        "INCREMENTING. Kafka Streams names its own, one per thread and start: nothing to change there.",
        "A transactional.id from a stable name of the instance, no UUID or time in it.",
        "A transactional.id from a stable name of the instance, no UUID or time in it.",
    ),
    Churn.DEPLOY: Fix(
        "Nothing is wrong: each roll-out opens a producer per process; the quota must cover one or two in a window.",
        *_NO_CHANGE,
    ),
    Churn.CANT_TELL: Fix(
        "The evidence fits more than one kind: see what would decide.",
        *3 * ("A client.id that names the process tells a restart from a producer per message.",),
    ),
    Churn.SCALE_OUT: Fix(
        "Nothing is wrong: many machines each opened a producer; raise the quota if such starts are planned.",
        *_NO_CHANGE,
    ),
    Churn.HEALTHY: Fix(
        "Nothing to change: so few producer ids, or those of one start, harm no broker.",
        *3 * ("Nothing to change.",),
    ),
}
"""Remedy by kind."""

"""Remedies by kind of churn and client library."""

from dataclasses import dataclass

from lifecycle.churn import Churn


@dataclass(frozen=True)
class Fix:
    """A remedy in one sentence, and its details for each client library.

    `python` is for confluent-kafka and kafka-python.
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
        "Find out why the process ends (see its log and the exit code), and let the supervisor wait longer.",
        "Log the exception that ends main() before close(); wait longer between restarts, or stop after a few.",
        "Log the exception before the interpreter ends. A worker pool's max-requests limit also restarts processes.",
        "Set error_cb and log RD_KAFKA_RESP_ERR__FATAL before abort(); keep core dumps.",
    ),
    Churn.ON_ERROR: Fix(
        "Handle the error instead of making a new producer: the client itself retries most errors.",
        "Keep the KafkaProducer on RetriableException; abortTransaction() on an abortable error; close() only on a "
        "fatal one (ProducerFencedException), and then find out why two instances share a transactional.id.",
        "Keep the Producer if error.retriable(); abort_transaction() if error.txn_requires_abort(); make a new one "
        "only if error.fatal(); fix the cause of refusals (message size, ACLs).",
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
        "Put the instance's stable name into transactional.id. End on a ProducerFencedException, without a restart.",
        "Put the instance's stable name into transactional.id. End if error.code() is _FENCED, without a restart.",
        "Put the instance's stable name into transactional.id. End on RD_KAFKA_RESP_ERR__FENCED, without a restart.",
    ),
    Churn.NEW_TRANSACTIONAL_ID: Fix(
        "Reuse a small set of transactional ids: a new one costs a producer id, a known one only an epoch.",
        "Derive transactional.id from the instance's stable name. In Flink choose transaction naming POOLING, not "
        "INCREMENTING. Kafka Streams names its ids itself, one per thread and start: change nothing there.",
        "Derive transactional.id from the instance's stable name, without a UUID or a time.",
        "Derive transactional.id from the instance's stable name, without a UUID or a time.",
    ),
    Churn.EXPIRED_IDLE: Fix(
        "Raise the brokers' transactional.id.expiration.ms (7 days) above the longest pause, or keep the ids in use.",
        "Begin and commit an empty transaction before transactional.id.expiration.ms is over; after an "
        "InvalidPidMappingException make a new KafkaProducer with the same transactional.id.",
        "Keep the Producer; if error.fatal() after a pause, make a new one with the same transactional.id.",
        "Keep the handle; after RD_KAFKA_RESP_ERR_INVALID_PRODUCER_ID_MAPPING make a new one with the same id.",
    ),
    Churn.ROTATION: Fix(
        "Nothing is wrong: with transaction version 2, EndTxn hands out a new id when the epochs of the old one are "
        "used up. Let the quota cover it, or commit less often.",
        *_NO_CHANGE,
    ),
    Churn.DEPLOY: Fix(
        "Nothing is wrong: each roll-out opens a producer per process. Let the quota cover two roll-outs in a window.",
        *_NO_CHANGE,
    ),
    Churn.CANT_TELL: Fix(
        "The evidence fits more than one kind: see what decides.",
        *3 * ("Use a client.id that names the process, to tell a restart from a producer per message.",),
    ),
    Churn.SCALE_OUT: Fix(
        "Nothing is wrong: many machines each opened a producer; raise the quota if such starts are planned.",
        *_NO_CHANGE,
    ),
    Churn.HEALTHY: Fix(
        "Nothing to change: few producer ids, or the ids of one start, harm no broker.",
        *3 * ("Nothing to change.",),
    ),
}

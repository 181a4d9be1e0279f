"""Why a client asks for producer ids again and again: a diagnosis from what a broker can see of it, and the fix.

The view `principal_churn` holds the same rules for SQL; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

MIN_NEW_PIDS = 5
"""Fewer are no churn, whatever they look like."""
START_SECONDS = 30.0
"""A process that opens all its producers at its start is done by then."""
MAX_PIDS_OF_A_START = 100
ERROR_SHARE = 0.5
MIN_ERRORS = 5
"""So many error answers, and more than ids: a client that asks again and again in vain."""
MIN_FLEET_HOSTS = 3
MAX_PIDS_PER_FLEET_HOST = 3
LONG_LIFE_SECONDS = 600.0
RESTART_SECONDS = 2.0
"""No supervisor starts a process again in less for long: Docker and Kubernetes wait longer each time, systemd stops."""
REGULAR_SPREAD = 0.5
GROWING_SHARE = 0.75
JAVA_DEFAULT = "producer-#"
"""Java's own client id, which counts up the producers of one process: `producer-1`, `producer-2`."""


class Churn(str, Enum):
    """What a client does."""

    PER_MESSAGE = "producer per message/batch"
    RESTART_LOOP = "restart loop"
    ON_ERROR = "new producer on error"
    SCALE_OUT = "scale-out"
    HEALTHY = "healthy"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known of a client.

    Attributes:
        client: Its client id without the number or UUID at its end.
        new_pids: Producer ids that it was given.
        span_seconds: From the first of them to the last.
        median_life_seconds: Time until the next new one of the same address; None if there never was a next one.
        life_spread: Interquartile range of that time over its median; None as above.
        growing_share: Share of these times that are at least a fifth longer than the one before; None without two.
        errors_before_share: Share of the ids that follow an error.
        error_answers: Requests for ids that were answered with an error, but for those that only have to wait.
        hosts: Addresses that it came from.
        client_ids: Full client ids that it used.
    """

    client: str
    new_pids: int
    span_seconds: float
    median_life_seconds: float | None = None
    life_spread: float | None = None
    growing_share: float | None = None
    errors_before_share: float = 0.0
    error_answers: int = 0
    hosts: int = 1
    client_ids: int = 1

    @property
    def pids_per_hour(self) -> float:
        """New producer ids per hour while it was at it, counted over a minute at least."""
        return self.new_pids * 3600 / max(60.0, self.span_seconds)


def diagnose(evidence: Evidence) -> Churn:
    """Say what a client does.

    Examples:
        >>> diagnose(Evidence(client="app", new_pids=900, span_seconds=90, median_life_seconds=0.1)).value
        'producer per message/batch'
    """
    if evidence.error_answers >= MIN_ERRORS and evidence.error_answers > evidence.new_pids:
        return Churn.ON_ERROR
    if evidence.new_pids < MIN_NEW_PIDS:
        return Churn.HEALTHY
    if evidence.span_seconds <= START_SECONDS and evidence.new_pids < MAX_PIDS_OF_A_START:
        return Churn.HEALTHY
    if evidence.errors_before_share >= ERROR_SHARE:
        return Churn.ON_ERROR
    if evidence.hosts >= MIN_FLEET_HOSTS and evidence.new_pids <= MAX_PIDS_PER_FLEET_HOST * evidence.hosts:
        return Churn.SCALE_OUT
    life = evidence.median_life_seconds
    if life is not None and life >= LONG_LIFE_SECONDS:
        return Churn.HEALTHY
    return _by_rhythm(evidence)


def _by_rhythm(evidence: Evidence) -> Churn:
    if evidence.client == JAVA_DEFAULT and evidence.client_ids >= 0.5 * evidence.new_pids:
        # One process counts on; one that starts anew begins with 1 again.
        return Churn.PER_MESSAGE
    if evidence.client == JAVA_DEFAULT and evidence.client_ids == 1:
        return Churn.RESTART_LOOP
    if evidence.median_life_seconds is not None and evidence.median_life_seconds < RESTART_SECONDS:
        return Churn.PER_MESSAGE
    # Supervisors wait the same time or longer each time; work comes when it comes.
    is_regular = evidence.life_spread is not None and evidence.life_spread <= REGULAR_SPREAD
    is_growing = evidence.growing_share is not None and evidence.growing_share >= GROWING_SHARE
    return Churn.RESTART_LOOP if is_regular or is_growing else Churn.PER_MESSAGE


@dataclass(frozen=True)
class Fix:
    """What to do about it, one sentence for each.

    Attributes:
        summary: Whatever the language.
        java: With Kafka's own client.
        python: With confluent-kafka or kafka-python.
        librdkafka: In C and whatever is built on it.
    """

    summary: str
    java: str
    python: str
    librdkafka: str


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
        "only if error.fatal(); and mend what is refused (size of messages, rights).",
        "Keep the handle unless rd_kafka_error_is_fatal(); permanent failures (MSG_SIZE_TOO_LARGE, "
        "TOPIC_AUTHORIZATION_FAILED) make an idempotent producer ask for a new id each time, so mend their cause.",
    ),
    Churn.SCALE_OUT: Fix(
        "Nothing is wrong: many machines each opened a producer; raise the quota if such starts are planned.",
        "Nothing to change: one KafkaProducer per process is right.",
        "Nothing to change: one Producer per process is right.",
        "Nothing to change: one handle per process is right.",
    ),
    Churn.HEALTHY: Fix(
        "Nothing is wrong with this client.",
        "Nothing to change.",
        "Nothing to change.",
        "Nothing to change.",
    ),
}
"""What to do about each."""

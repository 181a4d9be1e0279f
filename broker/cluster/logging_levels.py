"""Switches the loggers that the tap reads on and off in running brokers.

A level set this way lasts until the broker restarts. Appenders can't be set this way, and without ours the lines would
flood server.log: our log settings declare a marker logger, which shows that the appender is there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from broker.cluster.cluster_admin import ClusterAdmin
from broker.errors import BrokerError

MARKER = "pid-quota.appender"
"""A logger that our log settings declare, so that they can be detected remotely."""

BROKER_LOGGERS = (
    "kafka.server.KafkaApis",
    "org.apache.kafka.storage.internals.log.ProducerStateManager",
)
CONTROLLER_LOGGERS = ("kafka.request.logger",)

_ON = {**dict.fromkeys(BROKER_LOGGERS, "TRACE"), **dict.fromkeys(CONTROLLER_LOGGERS, "DEBUG")}
# Levels of Kafka's own log settings.
_OFF = {**dict.fromkeys(BROKER_LOGGERS, "INFO"), **dict.fromkeys(CONTROLLER_LOGGERS, "WARN")}


@dataclass(frozen=True)
class LoggingOutcome:
    """Result for one broker.

    Attributes:
        broker_id: of the broker.
        changed: new level by logger.
        problem: why nothing was changed; None if all is well.
    """

    broker_id: int
    changed: dict[str, str]
    problem: str | None = None


def switch_logging(
    admin: ClusterAdmin,
    *,
    on: bool,
    broker_ids: Sequence[int] | None = None,
    controller: bool = False,
    force: bool = False,
) -> list[LoggingOutcome]:
    """Set the levels of the loggers that the tap reads, broker by broker.

    Args:
        admin: of the cluster.
        on: to TRACE or DEBUG; else to Kafka's own levels.
        broker_ids: brokers to change; by default all that are up.
        controller: change the request logger of combined nodes instead, for blocks of producer ids.
        force: do it even if the marker logger is missing.

    Returns:
        One outcome per broker; a failure does not stop the others.

    Raises:
        BrokerUnreachableError: no broker answers.
    """
    up = admin.living_brokers()
    wanted = CONTROLLER_LOGGERS if controller else BROKER_LOGGERS
    levels = {logger: (_ON if on else _OFF)[logger] for logger in wanted}
    return [
        _switch(admin, broker, levels, check=on and not force)
        if broker in up
        else LoggingOutcome(broker, {}, f"it is not up (up: {', '.join(map(str, up))}): check --broker-ids")
        for broker in (up if broker_ids is None else broker_ids)
    ]


def _switch(admin: ClusterAdmin, broker_id: int, levels: dict[str, str], *, check: bool) -> LoggingOutcome:
    try:
        now = admin.logger_levels(broker_id)
        if check and MARKER not in now:
            problem = (
                "its log settings are not those of docs/broker-logging, so the lines would flood server.log: install "
                "them and restart the broker, or use --force"
            )
            return LoggingOutcome(broker_id, {}, problem)
        changed = {logger: level for logger, level in levels.items() if now.get(logger) != level}
        if changed:
            admin.set_logger_levels(broker_id, changed)
    except BrokerError as error:
        return LoggingOutcome(broker_id, {}, str(error))
    return LoggingOutcome(broker_id, changed)

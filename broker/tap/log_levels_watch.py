"""Checks whether a silent broker has its log on: an idle broker is no gap in the watch, a log that is off is one."""

from collections.abc import Callable, Mapping

from broker.cluster.cluster_admin import ClusterAdmin
from broker.cluster.logging_levels import BROKER_LOGGERS
from broker.errors import BrokerError

SILENT_S = 60.0
"""Silence after which a broker is asked, and the interval of further questions."""

_TIMEOUT_MS = 3_000

LevelsQuestion = Callable[[int], bool | None]
"""Takes a broker's id; returns whether its log is on, None if unknown."""


def ask_levels(settings: Mapping[str, object]) -> LevelsQuestion:
    """Return a function that reads a broker's log levels.

    Args:
        settings: of kafka-python, for a user with DESCRIBE_CONFIGS on the cluster; otherwise the answer is None.
    """

    def is_on(broker_id: int) -> bool | None:
        try:
            with ClusterAdmin(settings, _TIMEOUT_MS) as admin:
                levels = admin.logger_levels(broker_id)
        except BrokerError:
            return None
        return all(levels.get(logger) == "TRACE" for logger in BROKER_LOGGERS)

    return is_on

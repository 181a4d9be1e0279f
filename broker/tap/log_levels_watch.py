"""Whether a silent broker has its log on: an idle broker is no gap in the watch over it, a log that is off is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker.cluster.cluster_admin import ClusterAdmin
from broker.cluster.logging_levels import BROKER_LOGGERS
from broker.errors import BrokerError

SILENT_S = 60.0
"""So long without a line, and then so often, a broker is asked."""

_TIMEOUT_MS = 3_000

LevelsQuestion = Callable[[int], bool | None]
"""Whether the log of a broker is on; None if it does not tell."""


def ask_levels(settings: Mapping[str, object]) -> LevelsQuestion:
    """Make the question.

    Args:
        settings: of kafka-python, of someone who has DESCRIBE_CONFIGS on the cluster; else no broker tells.
    """

    def is_on(broker_id: int) -> bool | None:
        try:
            with ClusterAdmin(settings, _TIMEOUT_MS) as admin:
                levels = admin.logger_levels(broker_id)
        except BrokerError:
            return None
        return all(levels.get(logger) == "TRACE" for logger in BROKER_LOGGERS)

    return is_on

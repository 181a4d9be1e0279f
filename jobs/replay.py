"""History run through the real rules: the stream itself, over the whole topic, into tables of its own."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from jobs.query import query
from jobs.quota_entry import QuotaEntry
from jobs.quota_table import set_quotas
from jobs.stream import stream
from quota.config import QuotaConfig

_REFUSED = """
SELECT counts.principal, counts.refused_pids, coalesce(throttles.throttles, 0) AS throttles
FROM (
    SELECT principal, CAST(sum(refused_pids) AS BIGINT) AS refused_pids FROM principal_metrics GROUP BY principal
) AS counts
LEFT JOIN (
    SELECT principal, count(*) AS throttles FROM throttle_decisions WHERE action = 'THROTTLE' GROUP BY principal
) AS throttles ON throttles.principal = counts.principal
"""


@dataclass(frozen=True)
class Refusals:
    """What a quota refused of a principal.

    Attributes:
        refused_pids: New PIDs refused.
        throttles: THROTTLE decisions, renewals among them.
    """

    refused_pids: int
    throttles: int


def replay(
    quotas: Sequence[QuotaEntry],
    bootstrap_servers: str,
    kafka_config: Path | None,
    config: QuotaConfig,
    learn_seconds: int | None,
) -> dict[str, Refusals]:
    """Run all that the topic of produce events holds under some quotas; return what was refused, by principal.

    Nothing is written but to a folder that is gone afterwards.

    Args:
        quotas: In force from the first event on.
        bootstrap_servers: Brokers of the topic.
        kafka_config: File of client settings.
        config: Settings of the rules.
        learn_seconds: How long after the oldest event nothing is charged; None for a window.

    Raises:
        StreamingError: As `pid-quota stream`.
        BrokerError: If Kafka can't be reached.
    """
    with tempfile.TemporaryDirectory(prefix="pid-quota-replay-") as folder:
        tables = str(Path(folder, "tables"))
        set_quotas(tables, quotas)
        stream(
            bootstrap_servers,
            tables,
            str(Path(folder, "checkpoint")),
            trigger="available-now",
            kafka_config=kafka_config,
            learn_seconds=learn_seconds,
            window_seconds=config.window_seconds,
            burst_windows=config.burst_windows,
        )
        rows = query(tables, _REFUSED, datetime.now(timezone.utc), config).rows
    return {principal: Refusals(refused_pids, throttles) for principal, refused_pids, throttles in rows}

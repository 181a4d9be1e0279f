"""Sends the heartbeats of a poll, one per broker."""

import socket
import time
import uuid
from collections.abc import Callable, Mapping

from broker.tap.heartbeats import HEARTBEAT_S
from broker.tap.tap_output import TapOutput
from wire.heartbeat import TapHeartbeat


class PollHeartbeats:
    """Heartbeats of one run of `pid-quota tap poll`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._host, self._tap_id = socket.gethostname(), uuid.uuid4().hex[:12]
        self._due_s = 0.0

    def are_due(self) -> bool:
        """Return whether `HEARTBEAT_S` have passed since the last heartbeats."""
        return time.monotonic() >= self._due_s

    def send(
        self, output: TapOutput, counters: Mapping[str, int], unanswered: Mapping[int, int], *, stopped: bool
    ) -> None:
        """Send a heartbeat for each broker. `unanswered` counts a broker's partitions without an answer."""
        self._due_s = time.monotonic() + HEARTBEAT_S
        brokers = output.brokers()
        for broker_id in brokers:
            missing = unanswered.get(broker_id, 0)
            problem = f"{missing} of its partitions did not answer the last poll" if missing else None
            heartbeat = TapHeartbeat(
                timestamp_ms=int(self._clock() * 1000),
                broker_id=broker_id,
                host=self._host,
                tap_id=self._tap_id,
                source="poll",
                counters={**counters},
                position=None,
                behind_bytes=None,
                lag_records=None,
                newest_line_ms=None,
                stopped=stopped,
                cluster_brokers=brokers,
                problem=problem,
            )
            output.send_status(heartbeat.key(), heartbeat)

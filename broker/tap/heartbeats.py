"""Sends the tap's heartbeats, one per broker that it watches."""

import socket
import uuid
from collections.abc import Callable, Iterable
from dataclasses import asdict

from broker.attribution.attribution import Attribution
from broker.log.sources import Source
from broker.tap.tap_output import TapOutput
from wire.heartbeat import TapHeartbeat


class Heartbeats:
    """Heartbeats of one run of a tap.

    Args:
        kind: of the source, `file` or `topic`.
        wall_clock: seconds since the epoch.
        on_heartbeat: called with each heartbeat, in the tap's thread.
    """

    def __init__(
        self, kind: str, wall_clock: Callable[[], float], on_heartbeat: Callable[[TapHeartbeat], None] | None = None
    ) -> None:
        self._kind, self._on_heartbeat = kind, on_heartbeat
        self._wall_clock = wall_clock
        self._tap_id = uuid.uuid4().hex[:12]
        self._unplaced: dict[int | None, int] = {}
        self._told: dict[int | None, tuple[int, int]] = {}

    def count_unplaced(self, broker_id: int | None) -> None:
        """Count an event sent as `unknown`."""
        self._unplaced[broker_id] = self._unplaced.get(broker_id, 0) + 1

    def send(
        self,
        output: TapOutput,
        source: Source,
        brokers: Iterable[Attribution],
        of_tap: dict[str, int],
        *,
        stopped: bool,
    ) -> None:
        """Send one for each broker whose id is known.

        Args:
            output: sends them.
            source: what the tap reads.
            brokers: attribution by broker.
            of_tap: counters of the whole tap.
            stopped: whether the tap is shutting down.
        """
        cluster_brokers = output.brokers()
        for attribution in brokers:
            if attribution.broker_id is None:
                continue
            heartbeat = TapHeartbeat(
                int(self._wall_clock() * 1000),
                attribution.broker_id,
                socket.gethostname(),
                self._tap_id,
                self._kind,
                {**of_tap, **asdict(attribution.counters)},
                source.position,
                source.lag if self._kind == "file" else None,
                source.lag if self._kind == "topic" else None,
                attribution.newest_line_ms,
                self._unplaced_share(attribution),
                list(attribution.borrowed),
                stopped,
                cluster_brokers,
                list(attribution.bad_samples),
                attribution.logging,
                attribution.calm,
            )
            output.send_status(heartbeat.key(), heartbeat)
            if self._on_heartbeat:
                self._on_heartbeat(heartbeat)

    def _unplaced_share(self, attribution: Attribution) -> float:
        """Share of the batches since the last call."""
        broker_id = attribution.broker_id
        now = (attribution.counters.events, self._unplaced.get(broker_id, 0))
        before = self._told.get(broker_id, (0, 0))
        self._told[broker_id] = now
        events = now[0] - before[0]
        return min(1.0, (now[1] - before[1]) / events) if events else 0.0

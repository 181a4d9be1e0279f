"""Sends the tap's heartbeats, one per broker that it watches."""

import socket
import uuid
from collections.abc import Callable
from dataclasses import asdict

from broker.log.sources import Source
from broker.tap.broker_watch import BrokerWatch
from broker.tap.tap_output import TapOutput
from broker.tap.watches import Watches
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
        self._host, self._tap_id = socket.gethostname(), uuid.uuid4().hex[:12]

    def send(
        self, output: TapOutput, source: Source, watches: Watches, of_tap: dict[str, int], *, stopped: bool
    ) -> None:
        """Send one for each broker.

        Args:
            output: sends them.
            source: what the tap reads.
            watches: over its brokers.
            of_tap: counters of the whole tap.
            stopped: whether the tap is shutting down.
        """
        cluster_brokers, samples = output.brokers(), list(watches.bad_samples)
        for watch in watches.by_name.values():
            heartbeat = self._of(watch, source, of_tap, stopped, cluster_brokers, samples)
            output.send_status(heartbeat.key(), heartbeat)
            if self._on_heartbeat:
                self._on_heartbeat(heartbeat)

    def _of(
        self,
        watch: BrokerWatch,
        source: Source,
        of_tap: dict[str, int],
        stopped: bool,
        cluster_brokers: list[int],
        bad_samples: list[str],
    ) -> TapHeartbeat:
        state = watch.state
        return TapHeartbeat(
            int(self._wall_clock() * 1000),
            watch.broker_id,
            self._host,
            self._tap_id,
            self._kind,
            {**of_tap, **asdict(watch.counters)},
            source.position,
            source.lag if self._kind == "file" else None,
            source.lag if self._kind == "topic" else None,
            watch.newest_line_ms,
            stopped,
            cluster_brokers,
            bad_samples,
            watch.problem,
            state.class_version if state else None,
            state.kafka_version if state else None,
            state.sees_inits if state else None,
        )

"""Sends the tap's heartbeats, one per broker."""

import socket
import uuid
from collections.abc import Callable
from dataclasses import asdict

from broker.log.sources import Source
from broker.tap.broker_watch import BrokerWatch
from broker.tap.tap_output import TapOutput
from broker.tap.watches import Watches
from wire.heartbeat import TapHeartbeat

HEARTBEAT_S = 10.0
SILENT_S = 60.0
"""A class that has written no line for this long is probably not loaded."""

_SILENT = (
    f"no line of the class has come for {SILENT_S:g} s, although it writes one every 10 s: check that it is loaded "
    f"(metric.reporters)"
)


class Heartbeats:
    """Heartbeats of one run of a tap."""

    def __init__(
        self,
        kind: str,
        wall_clock: Callable[[], float],
        on_heartbeat: Callable[[TapHeartbeat], None] | None = None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._kind, self._on_heartbeat, self._warn = kind, on_heartbeat, warn
        self._wall_clock = wall_clock
        self._began_ms = self._now_ms()
        self._host, self._tap_id = socket.gethostname(), uuid.uuid4().hex[:12]
        self._silent: set[int] = set()

    def send(
        self, output: TapOutput, source: Source, watches: Watches, of_tap: dict[str, int], *, stopped: bool
    ) -> None:
        """Send a heartbeat for each broker. `of_tap` has the counters of the whole tap."""
        cluster_brokers, samples = output.brokers(), list(watches.bad_samples)
        for watch in watches.by_name.values():
            state = watch.state
            heartbeat = TapHeartbeat(
                self._now_ms(),
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
                samples,
                watch.problem or self._silence(watch, source, cluster_brokers),
                state.class_version if state else None,
                state.kafka_version if state else None,
            )
            output.send_status(heartbeat.key(), heartbeat)
            if self._on_heartbeat:
                self._on_heartbeat(heartbeat)

    def _silence(self, watch: BrokerWatch, source: Source, cluster_brokers: list[int]) -> str | None:
        """Return a problem if the class in a running broker writes no lines, unless the tap is behind."""
        newest_ms = max(watch.newest_line_ms or 0, self._began_ms)
        if (
            watch.broker_id not in cluster_brokers
            or self._now_ms() - newest_ms <= SILENT_S * 1000
            or (self._kind == "file" and source.position is None)
            or source.lag
        ):
            self._silent.discard(watch.broker_id)
            return None
        if watch.broker_id not in self._silent:
            self._warn(f"broker {watch.broker_id}: {_SILENT}")
            self._silent.add(watch.broker_id)
        return _SILENT

    def _now_ms(self) -> int:
        return int(self._wall_clock() * 1000)

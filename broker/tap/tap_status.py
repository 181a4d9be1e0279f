"""Reads the taps' heartbeats from the topic `tap-status` to find brokers that no tap watches."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

import msgspec

from broker.kafka.tail import TopicReader, decode_values
from broker.kafka.topics import admin_client
from wire.heartbeat import TapHeartbeat
from wire.topics import TAP_STATUS

STALE_SECONDS = 60.0
"""Age at which a heartbeat is stale: six heartbeats were missed."""


class WatchState(str, Enum):
    """Whether a tap watches a broker."""

    WATCHED = "watched"
    NO_FILE = "no file"
    BLIND = "blind"
    STOPPED = "stopped"
    STALE = "stale"
    NEVER = "never seen"


@dataclass(frozen=True)
class WatchedBroker:
    """A broker, and the newest heartbeat of its tap, or None."""

    broker_id: int
    watch: WatchState
    alive: bool
    heartbeat: TapHeartbeat | None = None
    age_s: float | None = None

    @property
    def is_blind_spot(self) -> bool:
        """Whether the broker is up but no tap sees its producers."""
        return self.alive and self.watch is not WatchState.WATCHED

    def remarks(self) -> Iterator[str]:
        """Yield what the operator should know about the tap."""
        known = self.heartbeat
        if known is None:
            return
        if self.watch is WatchState.NO_FILE:
            yield "the file that its tap follows does not exist: check --log-file, and that the class is loaded"
        if known.problem:
            yield known.problem
        dropped, lost, bad = (known.counters.get(name, 0) for name in ("dropped_lines", "lost_lines", "bad_lines"))
        if dropped:
            yield f"its class dropped {_lines(dropped)}, since its queue or disk was full"
        if lost:
            yield f"{_lines(lost)} never arrived: check the rotation of its file, or the shipper"
        if bad:
            samples = f", such as {known.bad_samples[-1]!r}" if known.bad_samples else ""
            yield f"{_lines(bad)} of its tap could not be read{samples}"


@dataclass(frozen=True)
class DatedHeartbeat:
    """A heartbeat, and the time at which a broker appended it."""

    heartbeat: TapHeartbeat
    appended_ms: int


def watch_states(
    brokers: Iterable[int], heartbeats: Mapping[int, TapHeartbeat], now_ms: int, stale_s: float = STALE_SECONDS
) -> list[WatchedBroker]:
    """Return the state of each broker that is up or has a heartbeat."""
    alive = set(brokers)
    return [
        _watch_state(broker_id, broker_id in alive, heartbeats.get(broker_id), now_ms, stale_s)
        for broker_id in sorted(alive | set(heartbeats))
    ]


def read_heartbeats(config: Mapping[str, str]) -> dict[int, TapHeartbeat]:
    """Read the newest heartbeat by broker id."""
    return {broker_id: each.heartbeat for broker_id, each in read_dated_heartbeats(config).items()}


def read_dated_heartbeats(config: Mapping[str, str]) -> dict[int, DatedHeartbeat]:
    """Read the newest heartbeat, with its append time, by broker id."""
    decode = msgspec.json.Decoder(TapHeartbeat).decode
    found: dict[int, DatedHeartbeat] = {}
    with TopicReader(config, TAP_STATUS) as topic:
        for message in topic.read_to_end():
            for each in decode_values([message], decode):
                found[each.broker_id] = DatedHeartbeat(each, message.timestamp()[1])
    return found


def running_brokers(config: Mapping[str, str]) -> list[int]:
    """Return the ids of the brokers that are up."""
    return sorted(admin_client(config).metadata().brokers)


def _watch_state(broker_id: int, alive: bool, last: TapHeartbeat | None, now_ms: int, stale_s: float) -> WatchedBroker:
    if last is None:
        return WatchedBroker(broker_id, WatchState.NEVER, alive)
    age_s = max(0.0, (now_ms - last.timestamp_ms) / 1000)
    found = {
        WatchState.STOPPED: last.stopped,
        WatchState.STALE: age_s > stale_s,
        WatchState.NO_FILE: last.lacks_file,
        WatchState.BLIND: bool(last.problem),
    }
    watch = next((state for state, is_so in found.items() if is_so), WatchState.WATCHED)
    return WatchedBroker(broker_id, watch, alive, last, age_s)


def _lines(count: int) -> str:
    return f"{count:,} line{'' if count == 1 else 's'}"

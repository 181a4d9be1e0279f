"""Reads the taps' heartbeats from the compacted topic `tap-status`, and finds brokers that no tap watches."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

import msgspec
from confluent_kafka import KafkaException

from broker.kafka.errors import reason_of, unreachable
from broker.kafka.tail import TopicReader, decode_values
from broker.kafka.topics import admin_client
from wire.heartbeat import TapHeartbeat
from wire.topics import TAP_STATUS

_TIMEOUT_S = 15.0


class WatchState(str, Enum):
    """The state of the watch over a broker."""

    WATCHED = "watched"
    NO_FILE = "no file"
    BLIND = "blind"
    STOPPED = "stopped"
    STALE = "stale"
    NEVER = "never seen"


@dataclass(frozen=True)
class WatchedBroker:
    """A broker and its tap. `heartbeat` is the newest; None if there is none."""

    broker_id: int
    watch: WatchState
    alive: bool
    heartbeat: TapHeartbeat | None = None
    age_s: float | None = None

    @property
    def is_blind_spot(self) -> bool:
        """Whether it is up but its producers are not seen."""
        return self.alive and self.watch is not WatchState.WATCHED


def watch_states(
    brokers: Iterable[int], heartbeats: Mapping[int, TapHeartbeat], now_ms: int, stale_s: float
) -> list[WatchedBroker]:
    """Return the state of each broker that is up or known from a heartbeat; one older than `stale_s` is stale."""
    alive = set(brokers)
    return [
        _watch_state(broker_id, broker_id in alive, heartbeats.get(broker_id), now_ms, stale_s)
        for broker_id in sorted(alive | set(heartbeats))
    ]


def read_heartbeats(config: Mapping[str, str]) -> dict[int, TapHeartbeat]:
    """Read the newest heartbeat by broker id."""
    decode = msgspec.json.Decoder(TapHeartbeat).decode
    with TopicReader(config, TAP_STATUS) as topic:
        return {each.broker_id: each for each in decode_values(topic.read_to_end(), decode)}


def running_brokers(config: Mapping[str, str]) -> list[int]:
    """Ids of the brokers that are up."""
    try:
        return sorted(admin_client(config).list_topics(timeout=_TIMEOUT_S).brokers)
    except KafkaException as error:
        raise unreachable(config["bootstrap.servers"], reason_of(error)) from error


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

"""The command `pid-quota events`."""

from collections.abc import Iterable
from datetime import datetime, timezone

import msgspec
from confluent_kafka import Message

from broker.kafka.config import KafkaConfig
from broker.kafka.tail import TopicReader
from jobs.follow.lines import FollowOption, SinceOption, emit, start
from jobs.options import BootstrapServers, JsonOption, KafkaConfigFile, PrincipalOption, TopicOption, full_name
from jobs.output.human import human, time_of
from jobs.services.stopping import until_interrupted
from tables.times import to_ms, to_time
from wire.event_record import ProduceEvent, parse_events
from wire.topics import PRODUCE_EVENTS

_WAIT_S = 0.5
_YEAR_5000_MS = 95_617_584_000_000
_WORDS = {"broker_id": "broker", "client_id": "client", "address": "from", "transactional_id": "transaction"}


def events(
    bootstrap_servers: BootstrapServers,
    follow: FollowOption = False,
    since: SinceOption = None,
    principal: PrincipalOption = None,
    topic: TopicOption = PRODUCE_EVENTS,
    kafka_config: KafkaConfigFile = None,
    as_json: JsonOption = False,
) -> None:
    """Show the brokers' produce events, one per line: who appended with which producer id, and where."""
    begin = start(since, datetime.now(timezone.utc), follow=follow)
    wanted = principal and full_name(principal)
    settings = KafkaConfig.load(bootstrap_servers, kafka_config).client()
    with until_interrupted(), TopicReader(settings, topic, start="end" if begin is None else to_ms(begin)) as reader:
        _show(reader.read_to_end(), wanted, as_json)
        while follow:
            _show(reader.poll(_WAIT_S), wanted, as_json)


def _show(messages: Iterable[Message], principal: str | None, as_json: bool) -> None:
    for message in messages:
        value = message.value() or b""
        try:
            found = parse_events(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            # The stream writes such records to `quarantined_events`.
            if principal is None:
                text = value.decode(errors="backslashreplace")
                emit(f"no event: {text}", {"no_event": text}, as_json=as_json)
            continue
        for event in found:
            if principal in (None, event.principal):
                emit(_line(event), msgspec.to_builtins(event), as_json=as_json)


def _line(event: ProduceEvent) -> str:
    at_ms = event.timestamp_ms
    when = time_of(to_time(at_ms)) if abs(at_ms) < _YEAR_5000_MS else human(at_ms)
    parts = [when, human(event.principal), f"pid {event.producer_id}", f"{event.topic or '-'}-{event.partition}"]
    named = ((word, getattr(event, name)) for name, word in _WORDS.items())
    parts += [f"{word} {value}" for word, value in named if value is not None]
    return "  ".join([*parts, *(["learning"] if event.learning else [])])

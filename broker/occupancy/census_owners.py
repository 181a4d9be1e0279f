"""Reads the owners of a census's producer ids from the bindings that taps announced."""

from collections.abc import Mapping

import msgspec
import numpy as np

from broker.cluster.topic_reader import TopicReader
from lifecycle.occupancy import Int64s
from wire.records import Binding
from wire.topics import PRODUCER_PRINCIPALS

_decode = msgspec.json.Decoder(Binding).decode


def read_bindings(config: Mapping[str, str], producer_ids: Int64s) -> dict[int, tuple[str, int]]:
    """Return principal and hand-out time (ms since the epoch) by producer id, as far as taps announced them.

    Args:
        config: confluent-kafka settings of a user with READ on the topic.
        producer_ids: To look up.

    Raises:
        BrokerUnreachableError: the topic can't be read.
        TopicMissingError: no tap ever ran.
    """
    wanted = set(np.unique(producer_ids).tolist())
    newest: dict[int, Binding] = {}
    first_ms: dict[int, int] = {}
    with TopicReader(config, PRODUCER_PRINCIPALS) as topic:
        for message in topic.read_to_end():
            key, value = message.key(), message.value()
            if value is None or key is None or not key.isdigit() or int(key) not in wanted:
                continue
            try:
                binding = _decode(value)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            producer_id, known = binding.producer_id, newest.get(binding.producer_id)
            # A new epoch is not a new hand-out.
            first_ms[producer_id] = min(binding.timestamp_ms, first_ms.get(producer_id, binding.timestamp_ms))
            if known is None or binding.is_newer_than(known):
                newest[producer_id] = binding
    return {producer_id: (each.principal, first_ms[producer_id]) for producer_id, each in newest.items()}

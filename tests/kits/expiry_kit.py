"""A model of a broker's producer map of one partition, to test the forecast against."""

from dataclasses import dataclass

from lifecycle.occupancy import CHECK_INTERVAL_MS

DEFAULT_EXPIRATION_MS = 86_400_000
"""`producer.id.expiration.ms` unless it is set: a day."""


@dataclass(frozen=True)
class Remembered:
    """What a partition remembers of a producer."""

    last_timestamp_ms: int
    in_transaction: bool = False


class PartitionProducers:
    """The map of one replica, as `ProducerStateManager` keeps it."""

    def __init__(
        self,
        loaded_at_ms: int,
        expiration_ms: int = DEFAULT_EXPIRATION_MS,
        check_interval_ms: int = CHECK_INTERVAL_MS,
    ) -> None:
        self._expiration_ms = expiration_ms
        self._check_interval_ms = check_interval_ms
        self._last_check_ms = loaded_at_ms
        self._producers: dict[int, Remembered] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def append(self, producer_id: int, timestamp_ms: int, *, transactional: bool = False) -> None:
        """Take a batch; one of a transaction opens it."""
        self._producers[producer_id] = Remembered(timestamp_ms, transactional)

    def advance(self, now_ms: int) -> list[int]:
        """Do the checks that are due by `now_ms`."""
        checks = (now_ms - self._last_check_ms) // self._check_interval_ms
        if checks <= 0:
            return []
        # Nothing came in between, so the last check forgets all that the earlier ones would have.
        self._last_check_ms += checks * self._check_interval_ms
        gone = [
            producer_id
            for producer_id, known in self._producers.items()
            if not known.in_transaction and self._last_check_ms - known.last_timestamp_ms >= self._expiration_ms
        ]
        for producer_id in gone:
            del self._producers[producer_id]
        return gone

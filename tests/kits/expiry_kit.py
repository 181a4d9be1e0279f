"""A model of a broker's producer map of one partition, to test `lifecycle.expiry` and the forecast against."""

from dataclasses import dataclass

from lifecycle.expiry import CHECK_INTERVAL_MS

DEFAULT_EXPIRATION_MS = 86_400_000
"""`producer.id.expiration.ms` unless it is set: a day."""


def is_expired(last_timestamp_ms: int, in_transaction: bool, now_ms: int, expiration_ms: int) -> bool:
    """Say whether the next check forgets a producer.

    Args:
        last_timestamp_ms: Of its last batch, or of the marker that ended its last transaction.
        in_transaction: A transaction of it is open on this partition.
        now_ms: The broker's clock.
        expiration_ms: Its `producer.id.expiration.ms`.

    Examples:
        >>> is_expired(0, False, 86_399_999, 86_400_000), is_expired(0, False, 86_400_000, 86_400_000)
        (False, True)
        >>> is_expired(0, True, 999_000_000, 86_400_000)
        False
    """
    return not in_transaction and now_ms - last_timestamp_ms >= expiration_ms


@dataclass(frozen=True)
class Remembered:
    """What a partition remembers of a producer.

    Attributes:
        last_timestamp_ms: Of its last batch or end of a transaction.
        in_transaction: A transaction of it is open here.
    """

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
        """Begin with no producers.

        Args:
            loaded_at_ms: When the broker loaded the partition: its checks count from there.
            expiration_ms: May be changed at any time, as the broker's own setting.
            check_interval_ms: From one check to the next.
        """
        self.expiration_ms = expiration_ms
        self._check_interval_ms = check_interval_ms
        self._last_check_ms = loaded_at_ms
        self._producers: dict[int, Remembered] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._producers

    def append(self, producer_id: int, timestamp_ms: int, *, transactional: bool = False) -> None:
        """Take a batch; one of a transaction opens it."""
        self._producers[producer_id] = Remembered(timestamp_ms, transactional)

    def end_transaction(self, producer_id: int, timestamp_ms: int) -> None:
        """Take the marker of a commit or an abort: the producer's age begins anew."""
        self._producers[producer_id] = Remembered(timestamp_ms)

    def advance(self, now_ms: int) -> list[int]:
        """Do the checks that are due by `now_ms`.

        Returns:
            Producer ids that were forgotten.
        """
        checks = (now_ms - self._last_check_ms) // self._check_interval_ms
        if checks <= 0:
            return []
        # Nothing came in between, so the last check forgets all that the earlier ones would have.
        self._last_check_ms += checks * self._check_interval_ms
        gone = [
            producer_id
            for producer_id, known in self._producers.items()
            if is_expired(known.last_timestamp_ms, known.in_transaction, self._last_check_ms, self.expiration_ms)
        ]
        for producer_id in gone:
            del self._producers[producer_id]
        return gone

    def forgotten_at_ms(self, producer_id: int) -> int | None:
        """When a producer is forgotten if nothing comes of it any more; None while its transaction is open."""
        known = self._producers[producer_id]
        if known.in_transaction:
            return None
        due_ms = known.last_timestamp_ms + self.expiration_ms
        checks = max(1, -(-(due_ms - self._last_check_ms) // self._check_interval_ms))
        return self._last_check_ms + checks * self._check_interval_ms

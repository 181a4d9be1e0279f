"""How long a broker remembers a producer (KIP-854).

A broker expires a producer without an open transaction once its last batch is `producer.id.expiration.ms` old. The age
comes from the batch's timestamp, which the client may set.
"""

import numpy as np
import numpy.typing as npt

CHECK_INTERVAL_MS = 600_000
"""Default interval of a broker's expiration checks."""
DEFAULT_DELIVERY_TIMEOUT_MS = 120_000
"""Default `delivery.timeout.ms`. A producer retries for this long, so brokers must remember the producer."""


def expired(
    last_timestamps_ms: npt.NDArray[np.int64], in_transaction: npt.NDArray[np.bool_], now_ms: int, expiration_ms: int
) -> npt.NDArray[np.bool_]:
    """Return which producers the next check expires.

    `last_timestamps_ms` has the time of each producer's last batch, or of the marker that ended its last transaction.

    Examples:
        >>> expired(np.array([0, 1, 0]), np.array([False, False, True]), 86_400_000, 86_400_000).tolist()
        [True, False, False]
    """
    found: npt.NDArray[np.bool_] = ~in_transaction & (now_ms - last_timestamps_ms >= expiration_ms)
    return found

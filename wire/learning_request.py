"""What streams request of all taps: records of the topic `pid-quota-requests`, keyed by stream.

A stream learns anew when it forgot producer ids: records were lost, or a ledger. Taps can tell it which ids are new, so
it requests of them to ask the brokers.
"""

import msgspec


class LearningRequest(msgspec.Struct, frozen=True):
    """A stream's last request.

    Attributes:
        learns_from_ms: when it began to learn, in ms since the epoch: ids that no broker held then or later are new.
        learns_until_ms: when it ends.
    """

    learns_from_ms: int
    learns_until_ms: int

"""Requests of streams to all taps: records of the topic `pid-quota-requests`, keyed by stream.

A stream learns anew when it forgot producer ids: records were lost, or a ledger. Taps can find out which ids are new,
so the stream asks them to query the brokers.
"""

import msgspec


class LearningRequest(msgspec.Struct, frozen=True):
    """A stream's last request.

    Attributes:
        learns_from_ms: when it began to learn, in ms since the epoch: ids that no broker held then or later are new.
    """

    learns_from_ms: int
    learns_until_ms: int

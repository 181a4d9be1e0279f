"""What streams tell all taps: records of the topic `pid-quota-requests`.

A stream learns anew when it forgot producer ids: records were lost, or a ledger. Taps can tell it which ids are new, so
it requests of them to ask the brokers; key: the stream. When it starts, each stream announces its ticks, within which
taps may leave out repeats; key: `announcement_key`, so that neither replaces the other.
"""

import msgspec


class LearningRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stream's last request, or its announcement: that requests nothing, since its learning time is over.

    Attributes:
        learns_from_ms: when it began to learn, in ms since the epoch: ids that no broker held then or later are new.
        learns_until_ms: when it ends.
        events_topic: an announcement: the topic that the stream reads.
        quantum_ms: an announcement: length of a quantum, aligned to the epoch.
        ticks: an announcement: how many ticks a quantum has.
    """

    learns_from_ms: int
    learns_until_ms: int
    events_topic: str = ""
    quantum_ms: int = 0
    ticks: int = 0


def announcement(events_topic: str, quantum_ms: int, ticks: int) -> LearningRequest:
    """Return what a stream announces."""
    return LearningRequest(0, 0, events_topic, quantum_ms, ticks)


def announcement_key(stream_id: str) -> str:
    """Return the key of a stream's announcement."""
    return f"{stream_id}/ticks"

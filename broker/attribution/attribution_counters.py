"""What attribution counts: of a broker's lines, and of batches without a binding."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class AttributionCounters:
    """What became of a broker's lines, since the start.

    Attributes:
        events: batches that went out or wait to.
        repeats: batches left out, since the same principal, client and id went out in the same second.
        borrowed: were produced by another principal than the one that the producer id was handed out to.
        markers: ends of transactions, which the broker writes, not events.
        followers: batches copied by a replica, not events.
        recovered: batches replayed after an unclean stop, not events.
        other_threads: batches appended otherwise, not events.
        own_topics: batches of our own and internal topics, not events.
        bindings: producer ids seen handed out.
        inits: answers to INIT_PRODUCER_ID.
        crafted_inits: of these, that a client's texts made ambiguous.
        unmatched_results: answers to INIT_PRODUCER_ID without their request.
        id_blocks: blocks of producer ids given to brokers.
        failures: partitions that a PRODUCE request failed for.
        bad_lines: lines or messages that were cut, damaged or of an unknown form.
        lost_lines: numbers of lines that never came.
    """

    events: int = 0
    repeats: int = 0
    borrowed: int = 0
    markers: int = 0
    followers: int = 0
    recovered: int = 0
    other_threads: int = 0
    own_topics: int = 0
    bindings: int = 0
    inits: int = 0
    crafted_inits: int = 0
    unmatched_results: int = 0
    id_blocks: int = 0
    failures: int = 0
    bad_lines: int = 0
    lost_lines: int = 0


@dataclass
class OwnerCounters:
    """What became of batches without a binding, since the start.

    Attributes:
        waited: had to wait.
        placed_late: of these, went out with their principal in time.
        unplaced: went out as `unknown`.
        corrections: sent for producer ids that had gone out as `unknown`.
    """

    waited: int = 0
    placed_late: int = 0
    unplaced: int = 0
    corrections: int = 0

"""Counters of attribution: of a broker's lines, and of batches without a binding."""

from dataclasses import dataclass


@dataclass
class AttributionCounters:
    """Outcomes of a broker's lines, since start.

    Attributes:
        events: batches sent or waiting.
        repeats: batches dropped as duplicates: same principal, client and id in the same tick.
        borrowed: batches by another principal than the producer id was handed out to.
        markers: transaction markers written by the broker; no events.
        followers: batches replicated by a follower; no events.
        recovered: batches replayed after an unclean shutdown; no events.
        other_threads: batches appended by other threads; no events.
        own_topics: batches of our own and internal topics; no events.
        bindings: producer ids seen handed out.
        inits: answers to INIT_PRODUCER_ID.
        crafted_inits: of these, ambiguous because of delimiters in client texts.
        unmatched_results: answers to INIT_PRODUCER_ID without their request.
        id_blocks: blocks of producer ids allocated to brokers.
        failures: partitions for which a PRODUCE request failed.
        bad_lines: lines or messages that are truncated, damaged or of an unknown form.
        lost_lines: line numbers that never arrived.
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
    """Outcomes of batches without a binding, since start.

    Attributes:
        waited: waited for a binding.
        placed_late: of these, sent with their principal in time.
        unplaced: sent as `unknown`.
        corrections: sent for producer ids that were sent as `unknown` before.
    """

    waited: int = 0
    placed_late: int = 0
    unplaced: int = 0
    corrections: int = 0

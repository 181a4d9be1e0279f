"""Counters of a tap."""

from dataclasses import dataclass

from broker.log.sources import SourceCounters


@dataclass
class LineCounters:
    """Counters of a broker's lines since start; the class itself counts the last five, since the start of its run.

    Attributes:
        events: Batches sent as events.
        inits: Answers to INIT_PRODUCER_ID.
        id_blocks: Blocks of producer ids allocated to the broker.
        own_topics: Batches of the tap's own topic, which make no events.
        duplicates: Skipped lines that a shipper delivered more than once.
        lost_lines: Line numbers that never arrived.
        dropped_lines: Lines that the class could not write, because its queue or the disk was full.
        dropped_inits: Answers to INIT_PRODUCER_ID beyond the class's limit per second.
        ambiguous_inits: Answers to INIT_PRODUCER_ID without a certain request.
        class_errors: Exceptions in the class.
        forgotten_ticks: Times that its memory of a tick was too small, so that repeats were written.
    """

    events: int = 0
    inits: int = 0
    id_blocks: int = 0
    own_topics: int = 0
    duplicates: int = 0
    lost_lines: int = 0
    dropped_lines: int = 0
    dropped_inits: int = 0
    ambiguous_inits: int = 0
    class_errors: int = 0
    forgotten_ticks: int = 0


@dataclass
class TapCounters(SourceCounters, LineCounters):
    """All counters of a tap, over all brokers it reads.

    Attributes:
        bad_lines: Lines that are not the class's: truncated, damaged or of another writer.
    """

    bad_lines: int = 0

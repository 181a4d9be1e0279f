"""Counters of a tap."""

from dataclasses import dataclass

from broker.log.sources import SourceCounters


@dataclass
class LineCounters:
    """Outcomes of a broker's lines, since start; the last five are the class's own, since the start of its run.

    Attributes:
        events: batches sent as events.
        inits: answers to INIT_PRODUCER_ID.
        id_blocks: blocks of producer ids allocated to the broker.
        own_topics: batches of the tap's own topic; no events.
        duplicates: lines that a shipper delivered more than once, skipped.
        lost_lines: line numbers that never arrived.
        dropped_lines: lines that the class could not write: its queue or the disk was full.
        dropped_inits: answers to INIT_PRODUCER_ID beyond its limit per second.
        ambiguous_inits: answers to INIT_PRODUCER_ID whose request is not certain.
        class_errors: exceptions in the class.
        forgotten_ticks: times that its memory of a tick was too small, so that repeats were written.
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
        bad_lines: lines that are not the class's: cut, damaged or of another writer.
    """

    bad_lines: int = 0

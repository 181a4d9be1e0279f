"""Counters of a tap."""

from dataclasses import dataclass

from broker.log.sources import SourceCounters


@dataclass
class LineCounters:
    """Counters of a broker's lines since start; the class itself counts the last five, since the start of its run.

    `own_topics` counts batches of the tap's own topic, which make no events. `duplicates` counts lines that a
    shipper delivered again. The class drops lines if its queue or the disk is full, and inits beyond its limit per
    second. `ambiguous_inits` counts answers whose request is not certain. `forgotten_ticks` counts ticks for which
    the class's memory was too small, so that it wrote repeats.
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
    """All counters of a tap, over all brokers it reads. `bad_lines` are truncated, damaged or of another writer."""

    bad_lines: int = 0

"""Counters of a tap."""

from dataclasses import dataclass

from broker.attribution.attribution_counters import AttributionCounters, OwnerCounters
from broker.log.source_counters import SourceCounters


@dataclass
class TapCounters(SourceCounters, OwnerCounters, AttributionCounters):
    """All counters of a tap, over all brokers it reads."""

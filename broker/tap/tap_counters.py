"""What a tap counts."""

from __future__ import annotations

from dataclasses import dataclass

from broker.attribution.attribution_counters import AttributionCounters, OwnerCounters
from broker.log.source_counters import SourceCounters


@dataclass
class TapCounters(SourceCounters, OwnerCounters, AttributionCounters):
    """All of a tap, of all brokers whose lines it reads; `events` counts what was handed to Kafka."""

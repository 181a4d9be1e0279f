"""What the place that lines come from counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class SourceCounters:
    """What happened to the place that the lines come from, since the start.

    Attributes:
        lines: read, of any kind.
        rotations: times the log began a new file.
        truncations: times the log was cut.
        oversized_lines: too long to be of a log, cut.
        lost_files: times lines were gone before they were read: rotated files, records of a topic.
    """

    lines: int = 0
    rotations: int = 0
    truncations: int = 0
    oversized_lines: int = 0
    lost_files: int = 0

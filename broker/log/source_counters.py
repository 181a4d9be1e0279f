"""Counters of a source of lines."""

from dataclasses import dataclass


@dataclass
class SourceCounters:
    """Events at a source of lines, since start.

    Attributes:
        lines: read, of any kind.
        rotations: times the log was rotated.
        truncations: times the log was truncated.
        oversized_lines: beyond the maximum length, cut.
        lost_files: times lines were deleted before they were read: rotated files, records of a topic.
    """

    lines: int = 0
    rotations: int = 0
    truncations: int = 0
    oversized_lines: int = 0
    lost_files: int = 0

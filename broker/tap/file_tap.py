"""The tap of one broker's log file."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from broker.attribution.owners import WAIT_S
from broker.log.sources import FileSource
from broker.tap.source_tap import SourceTap
from wire.topics import PRODUCE_EVENTS


class Tap(SourceTap):
    """Follows the log file of one broker."""

    def __init__(
        self,
        log_file: Path,
        broker_id: int,
        kafka_config: Mapping[str, str],
        *,
        topic: str = PRODUCE_EVENTS,
        from_end: bool = False,
        position_file: Path | None = None,
        every_batch: bool = False,
        wait_s: float = WAIT_S,
        learn_seconds: float = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing is opened yet.

        Args:
            log_file: what our log settings make the broker write; may appear later.
            broker_id: node id of that broker, for the events.
            kafka_config: as for `SourceTap`, like all that follows.
            topic: where the events go.
            from_end: without a saved position, begin at the end of the file instead of at its beginning.
            position_file: where the position is kept across runs; none is kept if left out.
            every_batch: also send what was sent in the same second already.
            wait_s: how long a batch waits for its binding.
            learn_seconds: how long the ids of a newly watched broker are marked `learning`; 0 for never.
            clock: seconds, for intervals; tests replace it.
        """
        super().__init__(
            FileSource(log_file, broker_id, from_end=from_end),
            kafka_config,
            topic=topic,
            position_file=position_file,
            every_batch=every_batch,
            wait_s=wait_s,
            learn_seconds=learn_seconds,
            clock=clock,
        )

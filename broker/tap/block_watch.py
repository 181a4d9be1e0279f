"""Finds in a metadata log the blocks of producer ids that were allocated to a tap's brokers."""

import math
from collections.abc import Callable
from pathlib import Path

from broker.errors import MetadataLogError
from broker.log.metadata_blocks import MetadataFollower
from broker.tap.once import Once
from broker.tap.watches import Watches
from wire.records import ProducerIdBlock

LOOK_S = 10.0


class BlockWatch:
    """The blocks of one broker, or of all brokers, in a metadata log.

    If `folder` is None, the class reports the log's folder.
    """

    def __init__(self, folder: Path | None, broker_id: int | None, warn: Callable[[str], None]) -> None:
        self._folder, self._broker_id, self._warn_once = folder, broker_id, Once(warn)
        self.follower = MetadataFollower()
        self._look_at = -math.inf

    def read(self, watches: Watches, now_s: float) -> list[ProducerIdBlock]:
        """Return new blocks. After the end of the log, look again only after `LOOK_S`."""
        state = None if self._broker_id is None else watches.of(self._broker_id).state
        folder = self._folder or (Path(state.metadata_log) if state and state.metadata_log else None)
        if folder is None or now_s < self._look_at:
            return []
        try:
            found = self.follower.read(folder)
        except MetadataLogError as error:
            self._look_at = now_s + LOOK_S
            self._warn_once(f"blocks of producer ids are not seen: {error}")
            return []
        if not self.follower.is_behind:
            self._look_at = now_s + LOOK_S
        ours = [each for each in found if self._broker_id in (None, each.broker_id)]
        for block in ours:
            if watch := watches.by_name.get(str(block.broker_id)):
                watch.counters.id_blocks += 1
        return [
            ProducerIdBlock(each.allocated_at_ms, each.broker_id, each.broker_epoch, each.first, each.length)
            for each in ours
        ]

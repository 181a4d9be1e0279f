"""Spark's own `GroupState` without a JVM. It only stores values."""

import json
from typing import Any, cast

from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import BinaryType, Row, StructField, StructType

_SCHEMA = StructType([StructField("ledger", BinaryType())])


class State(GroupState):
    """A state in one call.

    Args:
        stored: What was stored before, None for nothing.
        timed_out: Whether the call is that of a timeout.
        now_ms: Processing time of the batch.
        times_out_ms: When the timeout that was set before fires.
    """

    def __init__(
        self, stored: bytes | None = None, *, timed_out: bool = False, now_ms: int = 0, times_out_ms: int | None = None
    ) -> None:
        there, content = stored is not None, cast("Any", stored)
        conf = GroupStateTimeout.ProcessingTimeTimeout
        super().__init__(Row(content), now_ms, -1, conf, timed_out, False, there, False, False, -1, b"", _SCHEMA)
        self.updates = 0
        self._set_before_ms = times_out_ms

    @property
    def stored(self) -> bytes | None:
        return bytes(self.get[0]) if self.exists else None

    def update(self, value: tuple[bytes]) -> None:
        super().update(value)
        self.updates += 1

    @property
    def timeout_ms(self) -> int | None:
        """When it fires, if that was set in this call."""
        timestamp_ms = json.loads(self.json())["timeoutTimestamp"]
        return None if timestamp_ms == State.NO_TIMESTAMP else int(timestamp_ms)

    @property
    def times_out_ms(self) -> int | None:
        """When it fires. A call that sets none leaves the one before as it is, also if that one has fired."""
        return self._set_before_ms if self.timeout_ms is None else self.timeout_ms

    def next_call(self, now_ms: int = 0) -> "State":
        return State(self.stored, now_ms=now_ms, times_out_ms=self.times_out_ms)

    def times_out(self, now_ms: int = 0) -> "State":
        return State(self.stored, timed_out=True, now_ms=now_ms, times_out_ms=self.times_out_ms)

"""Spark's own `GroupState`, made here instead of by the JVM."""

import json

from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import BinaryType, Row, StructField, StructType


class State(GroupState):
    """Spark's own, which the JVM makes otherwise."""

    def __init__(self, stored: bytes | None = None, *, timed_out: bool = False) -> None:
        schema = StructType([StructField("ledger", BinaryType())])
        conf = GroupStateTimeout.ProcessingTimeTimeout
        there = stored is not None
        super().__init__(Row(stored), 0, -1, conf, timed_out, False, there, False, False, -1, b"", schema)
        self.updates = 0

    @property
    def stored(self) -> bytes:
        return bytes(self.get[0])

    def update(self, value: tuple[bytes]) -> None:
        super().update(value)
        self.updates += 1

    @property
    def timeout_ms(self) -> int | None:
        """Set in this call; the batch's time is 0 here."""
        timestamp_ms = json.loads(self.json())["timeoutTimestamp"]
        return None if timestamp_ms == State.NO_TIMESTAMP else timestamp_ms

    def next_call(self) -> "State":
        return State(self.stored)

    def times_out(self) -> "State":
        return State(self.stored, timed_out=True)

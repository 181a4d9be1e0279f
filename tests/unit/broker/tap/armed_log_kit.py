"""A tap's switch of a broker's log, with a fake broker and a clock that waiting passes."""

import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from broker.cluster.logging_levels import BROKER_LOGGERS, MARKER
from broker.cluster.producers_admin import ProducersAdmin
from broker.tap.armed_log import CALM_S, ArmedLog
from broker.tap.arming import WINDOW_S

BROKER_ID = 1
AT_PER_S = 1.0
OFF, ON = (dict.fromkeys(BROKER_LOGGERS, level) for level in ("INFO", "TRACE"))


class Time(threading.Event):
    """Passes only while it is waited for; is set when it is over."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s, self.until_s = 1000.0, float("inf")

    def wait(self, timeout: float | None = None) -> bool:
        self.now_s += timeout or 0.0
        if self.now_s >= self.until_s:
            self.set()
        return self.is_set()


class Broker(ProducersAdmin):
    """A fake, for the order of requests and for failures: one broker, and the client that asks it."""

    def __init__(self, time: Time) -> None:
        self.time, self.levels = time, {MARKER: "INFO", **OFF}
        self.next_id, self.is_flooded, self.gives_ids = 5000, False, True
        self.partitions, self.held = 1, array("q", [1, 2])
        self.error: Exception | None = None
        self.failing: set[str] = {"look", "try", "set", "id", "count", "producers"}
        self.calls: list[str] = []
        self.ids_asked_at, self.counted_at = list[float](), list[float]()
        self.on_set: Callable[[Mapping[str, str]], object] = lambda _: None
        self.on_count: Callable[[], object] = lambda: None

    def close(self) -> None:
        pass

    @property
    def log(self) -> dict[str, str]:
        return {each: self.levels[each] for each in BROKER_LOGGERS}

    def logger_levels(self, broker_id: int) -> dict[str, str]:
        self._called("look")
        return dict(self.levels)

    def set_logger_levels(self, broker_id: int, levels: Mapping[str, str], *, only_try: bool = False) -> None:
        self._called("try" if only_try else "set")
        if not only_try:
            self.on_set(levels)
            self.levels.update(levels)

    def next_producer_id(self, broker_id: int) -> int | None:
        self._called("id")
        self.ids_asked_at.append(self.time.now_s)
        self.next_id += 100 if self.is_flooded else 1
        return self.next_id if self.gives_ids else None

    def partitions_by_leader(self, *, with_leaderless: bool = False) -> dict[int, list[tuple[str, int]]]:
        self._called("count")
        self.counted_at.append(self.time.now_s)
        return {BROKER_ID: [("orders", number) for number in range(self.partitions)]}

    def producers(self, broker_id: int, partitions: Sequence[tuple[str, int]]) -> Any:
        self._called("producers")
        self.on_count()
        producers = [SimpleNamespace(producer_id=each) for each in self.held]
        about = SimpleNamespace(partition_index=0, error_code=0, active_producers=producers)
        return SimpleNamespace(topics=[SimpleNamespace(name="orders", partitions=[about])])

    def _called(self, what: str) -> None:
        self.calls.append(what)
        if self.error is not None and what in self.failing:
            raise self.error


class Tap:
    """One run of a tap, with its clock."""

    def __init__(self, broker: Broker, file: Path) -> None:
        self.broker, self.time, self.said = broker, broker.time, list[str]()
        self.log = ArmedLog({}, BROKER_ID, file, AT_PER_S, say=self.said.append, clock=lambda: broker.time.now_s)

    def begun(self) -> "Tap":
        self.log.begin()
        return self

    def runs(self, seconds: float) -> None:
        self.time.clear()
        self.time.until_s = self.time.now_s + seconds
        self.log.watch(self.time)

    def begun_in_a_flood(self) -> "Tap":
        self.begun()
        self.broker.is_flooded = True
        self.runs(5)
        assert self.broker.log == ON
        return self

    def runs_until_calm(self) -> None:
        self.broker.is_flooded = False
        self.runs(CALM_S - 5)
        assert (self.broker.log, self.log.is_calm) == (ON, False)
        self.runs(WINDOW_S + 15)

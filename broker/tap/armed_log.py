"""Switches a broker's log on while producer ids come fast, and off again (`pid-quota tap --armed-by-growth`).

A thread of its own asks the broker how many ids come (`broker.tap.arming`) and sets its log levels. It switches off
only what it has switched on: a file keeps that, written before, so that the next run of a killed tap knows it.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from broker.attribution.known_ids import KnownIds
from broker.cluster.logging_levels import BROKER_LOGGERS, MARKER
from broker.cluster.producers_admin import ProducersAdmin, led_ids
from broker.errors import BrokerError, ClusterRequestError, TapError
from broker.tap.arming import Arming, Growth, Step, next_step

CALM_S = 600.0
"""How long ids must have come slowly before the log is switched off."""
COUNT_S = 60.0
"""Pause between two counts of the ids that the broker's partitions hold."""

_ON = dict.fromkeys(BROKER_LOGGERS, "TRACE")
_TURN_S = 0.5
_ASK_S, _ASK_WHILE_ON_S = 1.0, 10.0
_LOOK_S = 10.0
_END_S = 10.0


class _SwitchedOn(msgspec.Struct, frozen=True):
    """What the file keeps: the levels before, by logger."""

    broker_id: int
    levels: dict[str, str]


class _StoppedError(Exception):
    """Ends a count when the tap stops."""


class ArmedLog:
    """The log of one broker, switched as needed.

    Args:
        settings: of kafka-python, for a user with DESCRIBE_CONFIGS and ALTER_CONFIGS on the cluster, WRITE on a topic,
            and READ on all that are to be counted.
        broker_id: of the broker.
        file: keeps what was switched on.
        at_per_s: new ids per second above which the log is needed.
        calm_s: how long they must have come slower before it is not.
        count_s: pause between two counts.
        say: called with a line for the operator, in the thread.
        clock: monotonic, in seconds.
    """

    def __init__(
        self,
        settings: Mapping[str, object],
        broker_id: int,
        file: Path,
        at_per_s: float,
        *,
        calm_s: float = CALM_S,
        count_s: float = COUNT_S,
        say: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._broker_id, self._file = settings, broker_id, file
        self._at_per_s, self._calm_s, self._count_s, self._say = at_per_s, calm_s, count_s, say
        self._clock = clock
        self._growth = Growth(self._clock())
        self._arming = Arming(at_per_s, calm_s)
        self._before: dict[str, str] | None = None
        self._ask_at = self._look_at = self._count_at = 0.0
        self._is_calm = False
        self._failed = False
        self._told = ""

    @property
    def is_calm(self) -> bool:
        """Whether the log is off since ids come slowly; becomes false before it is switched on.

        Raises:
            TapError: the thread has failed.
        """
        if self._failed:
            msg = f"the log of broker {self._broker_id} is no longer switched as needed, see above: restart the tap"
            raise TapError(msg)
        return self._is_calm

    @contextmanager
    def running(self, stop: threading.Event) -> Iterator[None]:
        """Begin, watch in a thread in the block, and end; `stop` is set when the block ends.

        Raises:
            TapError: as `begin`.
        """
        self.begin()
        thread = threading.Thread(target=self.watch, args=(stop,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(_END_S)
            self.end()

    def begin(self) -> None:
        """Check the rights, and take over what a killed run has switched on.

        Raises:
            TapError: a right is missing, or the broker's log settings are not ours.
        """
        try:
            with ProducersAdmin(self._settings) as admin:
                levels = admin.logger_levels(self._broker_id)
                admin.set_logger_levels(
                    self._broker_id, {each: levels.get(each, "INFO") for each in _ON}, only_try=True
                )
                admin.next_producer_id(self._broker_id)
        except BrokerError as error:
            msg = (
                f"can't switch the log of broker {self._broker_id} as needed ({error}): --armed-by-growth needs "
                f"DESCRIBE_CONFIGS and ALTER_CONFIGS on the cluster, and WRITE on the tap's topics"
            )
            raise TapError(msg) from error
        if MARKER not in levels:
            msg = (
                f"the log settings of broker {self._broker_id} are not those of docs/broker-logging, so its lines "
                f"would flood server.log: install them and restart the broker"
            )
            raise TapError(msg)
        kept = self._load()
        if kept is not None and kept.broker_id == self._broker_id:
            self._before = kept.levels
            self._arming = Arming(self._at_per_s, self._calm_s, self._clock())
        elif _is_on(levels):
            self._tell("its log is on, and was not switched on by this tap: it stays on until you switch it off")
        self._is_calm = not _is_on(levels)

    def watch(self, stop: threading.Event) -> None:
        """Switch the log as needed until `stop` is set; wait only by it."""
        try:
            while not stop.wait(_TURN_S):
                try:
                    with ProducersAdmin(self._settings) as admin:
                        while not stop.wait(_TURN_S):
                            self._turn(admin)
                            self._count(admin, stop)
                except BrokerError as error:
                    self._tell(f"can't watch how many producer ids come, or switch its log ({error}): trying again")
        except _StoppedError:
            return
        finally:
            self._failed = not stop.is_set()

    def end(self) -> None:
        """Restore the levels."""
        if self._before is None:
            return
        try:
            with ProducersAdmin(self._settings) as admin:
                self._switch_off(admin, admin.logger_levels(self._broker_id))
        except BrokerError as error:
            self._tell(f"its log may stay on until the tap's next run ({error})")

    def _turn(self, admin: ProducersAdmin) -> None:
        now_s = self._clock()
        if now_s >= self._ask_at:
            # While the log is on, each answer is a line and a record of the tap's own.
            self._ask_at = now_s + (_ASK_S if self._is_calm else _ASK_WHILE_ON_S)
            self._ask(admin, now_s)
        rate = self._growth.rate(now_s)
        needed = self._arming.is_needed(rate, now_s)
        if needed == self._is_calm or now_s >= self._look_at:
            self._look_at = now_s + _LOOK_S
            self._settle(admin, needed, rate)

    def _ask(self, admin: ProducersAdmin, now_s: float) -> None:
        try:
            producer_id = admin.next_producer_id(self._broker_id)
        except ClusterRequestError as error:
            # A broker that does not tell may hide a flood.
            self._tell(f"can't tell how many producer ids come ({error})")
            return
        if producer_id is not None:
            self._growth.next_id(producer_id, now_s)

    def _count(self, admin: ProducersAdmin, stop: threading.Event) -> None:
        if self._clock() < self._count_at:
            return

        def wait(seconds: float) -> None:
            if stop.wait(seconds):
                raise _StoppedError
            self._turn(admin)

        began_s = self._clock()
        # Also if the broker refuses: it is not to be asked for all its topics each second.
        self._count_at = began_s + self._count_s
        self._growth.held(KnownIds.of({}, led_ids(admin, self._broker_id, wait)), began_s)
        now_s = self._clock()
        # It takes half of the time at most.
        self._count_at = now_s + max(self._count_s, now_s - began_s)

    def _settle(self, admin: ProducersAdmin, needed: bool, rate: float) -> None:
        levels = admin.logger_levels(self._broker_id)
        is_on = _is_on(levels)
        step = next_step(needed=needed, is_on=is_on, is_ours=self._before is not None)
        if step is Step.SWITCH_ON:
            self._save({each: self._level_before(each, levels) for each in _ON})
            # First: the tap must take the next line for one after a gap.
            self._is_calm = False
            admin.set_logger_levels(self._broker_id, _ON)
            self._tell(f"its log is switched on, since {self._arming.reason(rate)}")
        elif step is Step.SWITCH_OFF:
            self._switch_off(admin, levels)
            self._is_calm = True
            self._tell(f"few new producer ids have come for {self._calm_s:g} s: its log is off")
        else:
            self._is_calm = not is_on

    def _level_before(self, logger: str, levels: Mapping[str, str]) -> str:
        """Return the level to restore; one that somebody has set meanwhile is theirs."""
        now = levels.get(logger, "INFO")
        return (self._before or {}).get(logger, now) if now == _ON[logger] else now

    def _switch_off(self, admin: ProducersAdmin, levels: Mapping[str, str]) -> None:
        """Restore what is still as we have set it."""
        ours = {each: self._level_before(each, levels) for each in _ON if levels.get(each) == _ON[each]}
        if ours:
            admin.set_logger_levels(self._broker_id, ours)
        self._forget()

    def _load(self) -> _SwitchedOn | None:
        with suppress(FileNotFoundError, msgspec.DecodeError):
            return msgspec.json.decode(self._file.read_bytes(), type=_SwitchedOn)
        return None

    def _save(self, levels: dict[str, str]) -> None:
        new = self._file.with_name(self._file.name + ".new")
        try:
            new.write_bytes(msgspec.json.encode(_SwitchedOn(self._broker_id, levels)))
            new.replace(self._file)
        except OSError as error:
            # Its log is needed now; without the file it stays on after a crash.
            self._tell(f"can't keep in {self._file} that its log is switched on ({error.strerror})")
        self._before = levels

    def _forget(self) -> None:
        self._before = None
        with suppress(OSError):
            self._file.unlink()

    def _tell(self, text: str) -> None:
        if text != self._told:
            self._say(f"broker {self._broker_id}: {text}")
            self._told = text


def _is_on(levels: Mapping[str, str]) -> bool:
    return all(levels.get(each) == level for each, level in _ON.items())

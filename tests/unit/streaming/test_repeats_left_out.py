"""What a tap leaves out, repeats within a tick, changes no decision, row or ledger of a stream."""

import itertools
from array import array
from collections.abc import Iterator
from contextlib import ExitStack

import pandas as pd
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.attribution.attribution import Attribution
from broker.attribution.bindings import Bindings
from broker.attribution.known_ids import Answers, KnownIds, Watched
from broker.attribution.owners import Owners
from broker.attribution.ticks import Ticks
from quota.config import TICKS_PER_QUANTUM, QuotaConfig
from quota.principals import NEVER_ENFORCED
from state.events import Deployment, Scope
from streaming.checkpoint.batch_quotas import Quota, Quotas
from streaming.operator.ledger_group import ledgers_in
from streaming.operator.rows import Rows, by_kind, unpack_rows
from tests.unit.streaming.batch_kit import KnownBatch, operator_of, pre_aggregate_of
from tests.unit.streaming.exploded_kit import exploded
from tests.unit.streaming.group_state_kit import State
from wire.records import Binding, ProduceEvent, Record

NOW_MS = 1_790_000_000_000
HOUR_MS = 3_600_000
# Two tokens, and one more each tick.
QUOTAS = Quotas(default=Quota(400.0, NOW_MS))
EVEN, UNEVEN = (QuotaConfig(window_seconds=seconds, burst_windows=0.005) for seconds in (3600, 100))
LINE = '{{{number}"ts":{ts},"thread":"data-plane-kafka-request-handler-1","logger":"{logger}","message":"{message}"}}'
REQUEST = (
    "[KafkaApi-{broker}] Handling request:RequestHeader(apiKey=PRODUCE, apiVersion=10, clientId={client}, "
    "correlationId=7, headerVersion=2) -- {{acks=-1,timeout=30000,partitionSizes=[AAAAAAAAAAAAAAAAAAAAAA:orders-0=73]"
    "}} "
    "from connection 127.0.0.1:40911-127.0.0.1:39570-1-0;securityProtocol:SASL_PLAINTEXT,principal:User:{user}"
)
APPENDED = (
    "[ProducerStateManager partition=orders-0] Updated producer {pid} state to ProducerAppendInfo(producerId={pid}, "
    "producerEpoch=0, firstSequence=0, lastSequence=0, currentTxnFirstOffset=OptionalLong{transaction}, "
    "coordinatorEpoch=-1, lastTimestamp=1795330632803, startedTransactions=[])"
)

Step = tuple[str, int, int, str, str]
"""What happens, milliseconds since the step before, PID, user, client id."""


class Tap:
    """A tap of two brokers, the second with lines without numbers that lag behind."""

    def __init__(self, owners: Owners, *, every_batch: bool, lag_ms: int, learn_ms: int, ticks: Ticks) -> None:
        self.owners, self.lag_ms, self.at_ms, self.now_s = owners, lag_ms, NOW_MS, 0.0
        self.logs = [Attribution(number, owners, every_batch=every_batch, learn_ms=learn_ms) for number in (1, 2)]
        self.numbers = itertools.count(1)
        owners.repeats.use(ticks)

    def take(self, what: str, step_ms: int, pid: int, user: str, client: str) -> Iterator[Record]:
        self.at_ms += step_ms
        self.now_s += max(0, step_ms) / 1000
        yield from self.owners.expire(self.now_s)
        name, _, broker = what.partition(" ")
        log = int(broker or 1) - 1
        if name == "produce":
            yield from self._line(log, "KafkaApis", REQUEST.format(broker=log + 1, client=client, user=user))
        if name in ("produce", "append"):
            # Without a request of its thread a batch is the owner's of its PID, or waits for one.
            transaction = ".empty" if name == "produce" else "[5]"
            yield from self._line(log, "ProducerStateManager", APPENDED.format(pid=pid, transaction=transaction))
        elif name == "bind":
            yield from self.owners.bind(Binding(pid, 0, f"User:{user}", client, "tx", 1, self.at_ms)) or ()
        elif name == "lose":
            self.logs[log].learning.restart()
        elif name == "ask":
            held = KnownIds({"log": Watched(self.at_ms - 1000, self.at_ms)}, array("q", [pid]), self.at_ms)
            self.logs[log].answers = Answers("log", None, (held,))

    def _line(self, log: int, logger: str, message: str) -> Iterator[Record]:
        number = f'"sn":{next(self.numbers)},' if log == 0 else ""
        line = LINE.format(number=number, ts=self.at_ms - log * self.lag_ms, logger=logger, message=message)
        yield from self.logs[log].feed(line.encode(), self.now_s)


class Stream:
    """The pre-aggregation and the operator, with all principals in one group, and what they said."""

    def __init__(self, deployment: Deployment) -> None:
        self.operator = operator_of(deployment, KnownBatch(in_force=QUOTAS), NEVER_ENFORCED)
        self.pre_aggregate = pre_aggregate_of(deployment)
        self.state, self.said, self.events = State(), Rows(), 0

    def take(self, events: list[ProduceEvent]) -> None:
        if not events:
            return
        rows = list(self.pre_aggregate.events(exploded(table(events, self.events))))
        self.events += len(events)
        if rows:
            principals, packed = zip(*rows, strict=True)
            frame = pd.DataFrame({"principal": principals, "packed": packed})
            self.state = self.state.next_call()
            self.said += unpack_rows(*[part["packed"] for part in self.operator((0,), iter([frame]), self.state)])

    def ledgers(self) -> dict[str, bytes]:
        return ledgers_in(self.state.stored) if self.state.stored else {}

    def decisions(self) -> list[object]:
        return sorted(by_kind(self.said).get("throttle_decisions", []), key=str)

    def metrics(self) -> dict[tuple[object, ...], dict[str, object]]:
        """The last row of each interval; late events are counted one by one, repeated or not."""
        rows = sorted(by_kind(self.said).get("producer_id_metrics", []), key=lambda row: row["as_of"])
        return {
            (row["principal"], row["broker_id"], row["window_end"]): {**row, "late_pids": 0, "batch_id": 0}
            for row in rows
        }


def table(events: list[ProduceEvent], offset: int) -> pa.Table:
    return pa.table(
        {
            "timestamp_ms": pa.array([event.timestamp_ms for event in events], pa.int64()),
            "principal": [event.principal for event in events],
            "producer_id": pa.array([event.producer_id for event in events], pa.int64()),
            "client_id": pa.array([event.client_id for event in events], pa.string()),
            "broker_id": pa.array([event.broker_id for event in events], pa.int32()),
            "correction": [event.correction for event in events],
            "learning": [event.learning for event in events],
            "asked_at_ms": pa.array([event.asked_at_ms for event in events], pa.int64()),
            "partition": pa.array([0] * len(events), pa.int32()),
            "offset": pa.array(range(offset, offset + len(events)), pa.int64()),
        }
    )


STEPS = st.tuples(
    st.sampled_from([*["produce", "produce 2"] * 4, "append", "append 2", "bind", "lose 2", "ask", "batch"]),
    st.sampled_from([*[0] * 8, 200, 4_000, 9_000, 11_000, 70_000, 400_000, -3_000, -12_000, -100_000, 900_000]),
    st.integers(0, 7),
    st.sampled_from(["alice", "alice", "alice", "mallory"]),
    st.sampled_from(["app", "app", "app", "other"]),
)


def streams(steps: list[Step], deployment: Deployment, lag_ms: int, learn_ms: int) -> tuple[Stream, Stream]:
    """What a stream is told, and says, of a history by a tap that leaves out repeats, and by one that does not."""
    found = []
    ticks = Ticks.of([(deployment.config.quantum_ms, TICKS_PER_QUANTUM)])
    for every_batch in (False, True):
        with ExitStack() as stack:
            bindings = stack.enter_context(Bindings())
            tap = Tap(Owners(bindings), every_batch=every_batch, lag_ms=lag_ms, learn_ms=learn_ms, ticks=ticks)
            stream, batch = Stream(deployment), list[ProduceEvent]()
            for step in [*steps, ("batch", 40_000, 0, "", "")]:
                batch += [record for record in tap.take(*step) if isinstance(record, ProduceEvent)]
                if step[0] == "batch":
                    stream.take(batch)
                    batch = []
            found.append(stream)
    return found[0], found[1]


def by_alice(what: str, *pids: int) -> list[Step]:
    return [(what, 0, pid, "alice", "app") for pid in pids]


def after(step_ms: int) -> Step:
    return "batch", step_ms, 0, "", ""


LATER_BROKER = [*by_alice("produce 2", 0, 1, 2, 4), *by_alice("produce", 5), *by_alice("produce 2", 4)]
"""A PID is refused in an older tick, and gets its token there once a broker that is ahead has moved the clock."""
LEARNED = [*by_alice("produce 2", 7), after(50_000), *by_alice("produce 2", 7), after(20_000)]
LEARNED += [*by_alice("produce 2", 0, 1, 2, 4), *by_alice("lose 2", 0), *by_alice("produce 2", 4)]
"""A PID is refused, and then stored, since its broker's log had a gap."""
LATE = [*by_alice("append", 4), after(40_000), after(900_000), *by_alice("produce", 0, 1, 2, 4), *by_alice("bind", 4)]
LATE += by_alice("produce", 4)
"""A PID is refused, known by a late correction, and renewed."""
NOBODY, TAP, BOTH = (0, 0), (60_000, 0), (60_000, NOW_MS + 600_000)


@settings(max_examples=200)
@given(
    steps=st.lists(STEPS, min_size=1, max_size=60),
    config=st.sampled_from([EVEN, UNEVEN]),
    scope=st.sampled_from(["cluster", "broker"]),
    lag_ms=st.sampled_from([0, 3_000, 30_000, 400_000]),
    learns=st.sampled_from([NOBODY, TAP, BOTH]),
)
@example(LATER_BROKER, EVEN, "cluster", 30_000, NOBODY)
@example(LEARNED, EVEN, "cluster", 0, TAP)
@example(LATE, EVEN, "cluster", 0, NOBODY)
def test_a_stream_decides_and_stores_the_same_whether_a_tap_leaves_out_repeats_or_not(
    steps: list[Step], config: QuotaConfig, scope: Scope, lag_ms: int, learns: tuple[int, int]
) -> None:
    learn_ms, until_ms = learns
    deployment = Deployment(config, 3, until_ms, scope, NOW_MS - 60_000 if until_ms else 0)

    less, every = streams(steps, deployment, lag_ms, learn_ms)

    assert less.ledgers() == every.ledgers()
    assert less.decisions() == every.decisions()
    assert less.metrics() == every.metrics()
    assert less.events <= every.events

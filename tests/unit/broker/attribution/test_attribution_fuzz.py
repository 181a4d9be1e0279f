"""Arbitrary bytes; threads in any order, lines lost, cut and damaged: nothing raises, nobody is framed."""

from dataclasses import dataclass
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.attribution.attribution import Attribution
from broker.attribution.bindings import Bindings
from broker.attribution.owners import Owners
from broker.attribution.thread_requests import read_produce
from broker.errors import LogLineError
from broker.log.log_layout import parse_line, unwrap
from broker.log.log_lines import parse_init, parse_init_result, parse_produce, parse_state
from wire.records import ProduceEvent, Record

LOGS = Path(__file__).parents[1]
RECORDED = (LOGS / "broker_lines.jsonl").read_bytes().splitlines()
RECORDED_3_9 = [line + b"\r\n" for line in (LOGS / "broker_lines_3_9.xml").read_bytes().split(b"\r\n\r\n")]

DAMAGED = st.tuples(
    st.sampled_from(RECORDED + RECORDED_3_9), st.integers(0, 2_000), st.binary(max_size=30), st.integers(0, 2_000)
).map(lambda parts: parts[0][: parts[1]] + parts[2] + parts[0][parts[3] :])


@given(st.lists(st.binary(max_size=200) | DAMAGED | st.sampled_from(RECORDED), max_size=30))
def test_no_bytes_raise_out_of_the_parsers_or_the_attribution(lines: list[bytes]) -> None:
    with Bindings() as bindings:
        attribution = Attribution(1, Owners(bindings), learn_ms=1)
        for line in lines:
            for record in attribution.feed(unwrap(line).line, 0.0):
                assert msgspec.json.encode(record)
            read_produce(line)
            try:
                message = parse_line(line).message
            except LogLineError:
                continue
            parse_produce(message)
            parse_state(message)
            parse_init(message)
            list(parse_init_result(message))
        for record in attribution.expire(10.0):
            assert msgspec.json.encode(record)


USERS = ("alice", "mallory", "victim")


@dataclass(frozen=True)
class Sent:
    """A request of a user on a thread, and what becomes of its lines."""

    user: str
    thread: int
    kind: str
    lost: bool
    cut: int | None
    torn: bool


SENT = st.builds(
    Sent,
    user=st.sampled_from(USERS),
    thread=st.integers(0, 2),
    kind=st.sampled_from(["plain", "idempotent", "idempotent", "init", "denied init", "tx init"]),
    lost=st.sampled_from([False, False, False, True]),
    cut=st.none() | st.none() | st.integers(0, 400),
    torn=st.sampled_from([False, False, False, False, True]),
)


class Broker:
    """Writes what a broker writes; a request's lines stand on one thread, in order."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.senders: dict[int, str] = {}
        self.owners: dict[int, str] = {}
        self._number = 0

    def handle(self, sent: Sent) -> None:
        user, api = sent.user, "PRODUCE" if sent.kind in ("plain", "idempotent") else "INIT_PRODUCER_ID"
        of_id = "'shared'" if sent.kind == "tx init" else "null"
        body = "{acks=-1,timeout=1,partitionSizes=[A:orders-0=70]}"
        if api != "PRODUCE":
            body = (
                f"InitProducerIdRequestData(transactionalId={of_id}, transactionTimeoutMs=1, producerId=-1, "
                f"producerEpoch=-1)"
            )
        # A name for the client that a cut may end in.
        client = "x;securityProtocol:SSL,principal:User:victim" if sent.cut is not None else "app"
        request = (
            f"[KafkaApi-1] Handling request:RequestHeader(apiKey={api}, apiVersion=1, clientId={client}, "
            f"correlationId=1, headerVersion=2) -- {body} from connection 1:1-2:2-3;securityProtocol:SSL,"
            f"principal:User:{user}"
        )
        if sent.cut is not None:
            request = request[: sent.cut] + "..."
        self._write(sent, "KafkaApis", request, damaged=True)
        producer_id = len(self.senders) + len(self.owners)
        if sent.kind in ("init", "tx init"):
            self.owners[producer_id] = user
            name = "null" if of_id == "null" else "shared"
            self._write(
                sent,
                "KafkaApis",
                f"[KafkaApi-1] Completed {name}'s InitProducerIdRequest with result "
                f"InitProducerIdResult({producer_id},0,NONE) from client {client}.",
            )
        elif sent.kind == "idempotent":
            self.senders[producer_id] = user
            self._write(
                sent,
                "ProducerStateManager",
                f"[ProducerStateManager partition=orders-0] Updated producer {producer_id} state to ProducerAppendInfo("
                f"producerId={producer_id}, producerEpoch=0, firstSequence=0, lastSequence=0, currentTxnFirstOffset="
                f"OptionalLong.empty, coordinatorEpoch=-1, lastTimestamp=1, startedTransactions=[])",
            )

    def _write(self, sent: Sent, logger: str, message: str, *, damaged: bool = False) -> None:
        self._number += 1
        thread = f"data-plane-kafka-request-handler-{sent.thread}"
        line = msgspec.json.encode({"ts": 1, "thread": thread, "logger": logger, "message": message})
        line = b'{"sn":%d,' % self._number + line[1:]
        if damaged and sent.lost:
            return
        self.lines.append(line[:-20] if damaged and sent.torn else line)


@settings(max_examples=300)
@given(st.lists(SENT, max_size=40))
def test_nobody_is_named_who_did_not_send(requests: list[Sent]) -> None:
    broker = Broker()
    for sent in requests:
        broker.handle(sent)
    with Bindings() as bindings:
        owners = Owners(bindings)
        attribution = Attribution(1, owners, every_batch=True)
        records: list[Record] = []
        for line in broker.lines:
            records += attribution.feed(line, 0.0)
        for step in range(len(requests)):
            records += attribution.expire(10.0 * (step + 1))
        records += owners.expire(1_000.0)
        bound = {producer_id: owners.find(producer_id) for producer_id in broker.owners}

    events = [record for record in records if isinstance(record, ProduceEvent)]
    for event in events:
        assert event.principal in ("unknown", f"User:{broker.senders[event.producer_id]}")
    for producer_id, binding in bound.items():
        assert binding is None or binding.principal == f"User:{broker.owners[producer_id]}"
    # Each batch whose own line came is one event, placed or not.
    assert sorted(event.producer_id for event in events) == sorted(broker.senders)

"""Labelled clients, one for each way to use producers, on a real broker, from one or several addresses."""

import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from confluent_kafka import KafkaException, Producer
from deltalake import write_deltalake
from kafka import KafkaProducer
from kafka.errors import KafkaError
from kafka.net.inet import KafkaNetSocket

from broker.local.local_broker import LocalBroker
from lifecycle.churn import Churn
from state.events import CHARGED, Deployment, Events
from state.hashing import hash_pids
from state.pid_uses import NO_USES, observed
from streaming.operator.rows import table_rows
from streaming.reports.report_rows import block_row, init_row
from tables.store.path_tables import create_missing, table_path
from wire.event_record import ProduceEvent
from wire.plugin_reports import BlockReport, InitReport

SECONDS = 205.0
_FLUSH_S = 20.0
_BEAT_S = 1.0


@dataclass(frozen=True)
class Place:
    settings: Mapping[str, str]
    topic: str
    addresses: tuple[str, ...]
    stop: threading.Event

    def address(self, number: int) -> str | None:
        """Where its process of a number runs."""
        return self.addresses[number % len(self.addresses)] if self.addresses else None

    @property
    def processes(self) -> int:
        """One for each address."""
        return max(1, len(self.addresses))


Run = Callable[[Place, str], None]


@dataclass(frozen=True)
class Client:
    """A client of which it is known what it does; its name is the user's, too."""

    name: str
    kinds: tuple[Churn, ...]
    run: Run = field(repr=False)
    nodes: int = 0


def labelled_clients() -> list[Client]:
    message, restart, leak = Churn.PER_MESSAGE, Churn.RESTART_LOOP, Churn.LEAK
    patterns: list[tuple[str, Churn, Run, int]] = [
        ("message", message, each_process(one_each(lambda _: itertools.repeat(0.7))), 5),
        ("batch", message, each_process(one_each(at_random(4.0))), 4),
        ("numbered", message, each_process(one_each(lambda _: itertools.repeat(2.7), numbered=True)), 4),
        ("schedule", message, each_process(scheduled(8.0)), 4),
        ("job", message, each_process(job(6, every_s=60.0)), 4),
        ("crash", restart, each_process(crashes(itertools.repeat(5.0), 0.0)), 4),
        ("backoff", restart, each_process(crashes((3.0 * 2**number for number in range(6)), 0.0)), 4),
        ("oom", restart, each_process(crashes(itertools.repeat(3.0), 9.0)), 4),
        ("java", restart, each_process(crashes(itertools.repeat(5.0), 0.0, client_id="producer-1")), 4),
        ("leak", leak, each_process(opened_and_kept(2.5)), 3),
        ("javaleak", leak, each_process(opened_and_kept(6.0, numbered=True)), 3),
        ("rollout", Churn.SCALE_OUT, rollout(20, apart_s=5.0), 5),
        ("deploy", Churn.DEPLOY, deploys(8, every_s=70.0), 5),
        ("war", Churn.FENCING_WAR, war(), 2),
        ("flink", Churn.NEW_TRANSACTIONAL_ID, each_process(new_transactional_ids(4.0)), 4),
        ("refused", Churn.ON_ERROR, each_process(in_vain(2.0)), 3),
        ("steady", Churn.HEALTHY, start(4), 4),
        ("start", Churn.HEALTHY, start(25), 5),
        ("streams", Churn.HEALTHY, each_process(stable_transactional_id()), 4),
    ]
    return [
        Client(f"{name}-{where}", (kind,), run, nodes if where == "several" else 0)
        for name, kind, run, nodes in patterns
        for where in ("one", "several")
    ] + [Client("serverless-several", (message,), containers(every_s=3.0), 60)]


@contextmanager
def running_clients(clients: Sequence[Client], broker: LocalBroker, topic: str) -> Iterator[None]:
    """Run all clients side by side, each as the user of its name, for as long as the block takes."""
    stop = threading.Event()
    nodes = itertools.count(2)
    with ThreadPoolExecutor(len(clients)) as pool:
        runs = []
        for one in clients:
            # Loopback addresses of its own.
            addresses = tuple(
                f"127.0.{1 + node // 250}.{1 + node % 250}" for node in itertools.islice(nodes, one.nodes)
            )
            place = Place(broker.client_config(one.name), topic, addresses, stop)
            runs.append(pool.submit(one.run, place, one.name))
        try:
            yield
        finally:
            stop.set()
        for run in runs:
            run.result()


def write_inits(tables: str, reports: Iterable[InitReport]) -> None:
    """Write answers to INIT_PRODUCER_ID to their table, as the stream does."""
    _append(tables, "producer_inits", map(init_row, reports))


def write_uses(tables: str, events: Iterable[ProduceEvent]) -> None:
    """Write the uses of producer ids to the metrics, as the stream does."""
    by_principal: dict[str, list[ProduceEvent]] = defaultdict(list)
    for each in sorted(events, key=lambda event: event.timestamp_ms):
        by_principal[each.principal].append(each)
    rows = []
    for principal, own in by_principal.items():
        pids, times_ms = [each.producer_id for each in own], [each.timestamp_ms for each in own]
        clients = [(each.client_id or "", each.address or "") for each in own]
        columns = Events(pids, times_ms, clients, [CHARGED] * len(pids), hash_pids(pids, 0))
        uses = observed(NO_USES, columns, Deployment()).row()
        rows.append({"principal": principal, "window_end": times_ms[-1], "as_of": times_ms[-1], **uses})
    _append(tables, "producer_id_metrics", rows)


def write_blocks(tables: str, reports: Iterable[BlockReport]) -> None:
    """Write blocks to their table, as the stream does: each block once."""
    _append(tables, "pid_blocks", map(block_row, {report.first_producer_id: report for report in reports}.values()))


def _append(tables: str, name: str, rows: Iterable[Mapping[str, object]]) -> None:
    create_missing(tables)
    write_deltalake(table_path(tables, name), table_rows(list(rows), name, 0), mode="append")


# What they do, in a process each. A process that dies is to a broker what a client is that closes


ProcessRun = Callable[[Place, str, int], None]
Delays = Callable[[int], Iterator[float]]


def each_process(run: ProcessRun) -> Run:
    """The same in a process on each address."""

    def run_all(place: Place, name: str) -> None:
        with ThreadPoolExecutor(place.processes) as pool:
            for done in [pool.submit(run, place, name, number) for number in range(place.processes)]:
                done.result()

    return run_all


def one_each(delays: Delays, *, numbered: bool = False) -> ProcessRun:
    """A new producer for each message, or each piece of work, which comes when it comes.

    `numbered` with the client ids that Java gives when there is none: they count up.
    """

    def run(place: Place, name: str, process: int) -> None:
        for number, delay_s in enumerate(delays(process), start=1):
            if place.stop.wait(delay_s):
                return
            send_one(open_client(place, f"producer-{number}" if numbered else name, process))

    return run


def scheduled(every_s: float) -> ProcessRun:
    """A new producer at every tick of a clock."""

    def run(place: Place, name: str, process: int) -> None:
        begin = time.monotonic()
        for tick in itertools.count(1):
            if place.stop.wait(max(0.0, begin + tick * every_s - time.monotonic())):
                return
            send_one(open_client(place, name, process))

    return run


def at_random(mean_s: float) -> Delays:
    def delays(process: int) -> Iterator[float]:
        rng = np.random.default_rng(process)
        while True:
            yield float(rng.exponential(mean_s))

    return delays


def job(producers: int, every_s: float) -> ProcessRun:
    """A scheduled job that opens some producers, uses them for a moment and ends."""

    def run(place: Place, name: str, process: int) -> None:
        while True:
            for client in [open_client(place, name, process) for _ in range(producers)]:
                send_one(client)
            if place.stop.wait(every_s):
                return

    return run


def crashes(delays: Iterable[float], works_s: float, client_id: str | None = None) -> ProcessRun:
    """A process that dies after a while at random, or at once, and a supervisor that starts it again."""
    waits = list(itertools.islice(delays, 100))

    def run(place: Place, name: str, process: int) -> None:
        rng = np.random.default_rng(process)
        for delay_s in waits:
            client = open_client(place, client_id or name, process)
            client.send()
            ends_at = time.monotonic() + float(rng.uniform(0.1 * works_s, works_s))
            while time.monotonic() < ends_at and not place.stop.wait(0.3):
                client.send()
            client.close()
            if place.stop.wait(delay_s):
                return

    return run


def opened_and_kept(gap_s: float, *, numbered: bool = False) -> ProcessRun:
    """A process that opens one producer after the other, and uses them all."""

    def run(place: Place, name: str, process: int) -> None:
        kept = []
        for number in itertools.count(1):
            kept.append(open_client(place, f"producer-{number}" if numbered else name, process))
            if _use(place, kept, gap_s * place.processes):
                break
        _close(kept)

    return run


def new_transactional_ids(gap_s: float) -> ProcessRun:
    """A checkpoint now and then, each with a transactional id of its own."""

    def run(place: Place, name: str, process: int) -> None:
        for number in itertools.count():
            send_one(open_client(place, name, process, f"{name}-{process}-{number}"))
            if place.stop.wait(gap_s):
                return

    return run


def stable_transactional_id() -> ProcessRun:
    """Transactions of an instance that begins anew twice, under the same id."""

    def run(place: Place, name: str, process: int) -> None:
        for _ in range(3):
            client = open_client(place, name, process, f"{name}-{process}")
            over = _use(place, [client], 65.0)
            client.close()
            if over:
                return

    return run


def in_vain(gap_s: float) -> ProcessRun:
    """Asks for ids that are refused, and starts over."""

    def run(place: Place, name: str, process: int) -> None:
        while not place.stop.wait(gap_s):
            with suppress(KafkaException, KafkaError):
                open_client(place, name, process, f"{name}-{process}", transaction_timeout_ms=2_000_000).close()

    return run


# What they do on all addresses together


def rollout(pods: int, apart_s: float) -> Run:
    """Pods that start one after the other, and stay."""

    def run(place: Place, name: str) -> None:
        kept: list[UsedClient] = []
        for number in range(pods):
            kept.append(open_client(place, name, number))
            if _use(place, kept, apart_s):
                break
        _use(place, kept, SECONDS)
        _close(kept)

    return run


def deploys(pods: int, every_s: float) -> Run:
    """Pods that are replaced, one after the other, again and again."""

    def run(place: Place, name: str) -> None:
        kept: list[UsedClient] = []
        over = False
        while not over:
            old, kept = kept, []
            for number in range(pods):
                kept.append(open_client(place, name, number))
                _close(old[number : number + 1])
                over = _use(place, [*kept, *old[number + 1 :]], 0.5)
            over = _use(place, kept, every_s - 0.5 * pods)
        _close(kept)

    return run


def war() -> Run:
    """Two instances of one transactional id, each of which begins again when the other one has fenced it."""

    def run(place: Place, name: str) -> None:
        def instance(number: int) -> None:
            # Behind one address they have names, elsewhere addresses.
            client_id = name if place.addresses else f"{name}-of-{'ab'[number]}"
            while not place.stop.wait(2.0):
                with suppress(KafkaException, KafkaError):
                    client = open_client(place, client_id, number, name)
                    try:
                        while not place.stop.wait(1.0):
                            client.send()
                    finally:
                        client.close()

        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(instance, number) for number in range(2)]:
                done.result()

    return run


def start(count: int) -> Run:
    """Producers that are made once and kept."""

    def run(place: Place, name: str) -> None:
        kept = [open_client(place, name, number) for number in range(count)]
        _use(place, kept, SECONDS)
        _close(kept)

    return run


def containers(every_s: float) -> Run:
    """A container for each message, with an address of its own."""

    def run(place: Place, name: str) -> None:
        for number in range(len(place.addresses)):
            send_one(open_client(place, name, number))
            if place.stop.wait(every_s):
                return

    return run


# Clients


class UsedClient(Protocol):
    def send(self) -> None:
        """Write a message, in a transaction of its own if the producer has transactions."""

    def close(self) -> None:
        """End it."""


def open_client(
    place: Place,
    client_id: str,
    process: int,
    transactional_id: str | None = None,
    transaction_timeout_ms: int = 30_000,
) -> UsedClient:
    """Open a producer: confluent-kafka's, or, where an address has to be chosen, kafka-python's."""
    address = place.address(process)
    if address is None:
        return _Confluent(place, client_id, transactional_id, transaction_timeout_ms)
    return _KafkaPython(place, client_id, address, transactional_id, transaction_timeout_ms)


def send_one(client: UsedClient) -> None:
    client.send()
    client.close()


class _Confluent:
    def __init__(self, place: Place, client_id: str, transactional_id: str | None, timeout_ms: int) -> None:
        settings = {
            **place.settings,
            "client.id": client_id,
            "enable.idempotence": True,
            "log_level": 0,
            "linger.ms": 0,
        }
        if transactional_id:
            settings |= {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}
        self._producer, self._topic, self._in_transactions = Producer(settings), place.topic, bool(transactional_id)
        if transactional_id:
            self._producer.init_transactions(_FLUSH_S)

    def send(self) -> None:
        if self._in_transactions:
            self._producer.begin_transaction()
        self._producer.produce(self._topic, b"value")
        if self._in_transactions:
            self._producer.commit_transaction(_FLUSH_S)
        else:
            self._producer.flush(_FLUSH_S)

    def close(self) -> None:
        del self._producer


class _KafkaPython:
    def __init__(
        self, place: Place, client_id: str, address: str, transactional_id: str | None, timeout_ms: int
    ) -> None:
        extra = {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms} if transactional_id else {}
        self._producer = KafkaProducer(
            bootstrap_servers=place.settings["bootstrap.servers"],
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username=place.settings["sasl.username"],
            sasl_plain_password=place.settings["sasl.password"],
            client_id=client_id,
            enable_idempotence=True,
            proxy_url=f"from://{address}",
            **extra,
        )
        self._topic, self._in_transactions = place.topic, bool(transactional_id)
        if transactional_id:
            try:
                self._producer.init_transactions()
            except KafkaError:
                self.close()
                raise

    def send(self) -> None:
        if self._in_transactions:
            self._producer.begin_transaction()
        sent = self._producer.send(self._topic, b"value")
        if self._in_transactions:
            self._producer.commit_transaction()
        else:
            sent.get(_FLUSH_S)

    def close(self) -> None:
        self._producer.close(timeout=0)


class _FromAddress(KafkaNetSocket):
    """kafka-python's way to other sockets, by the scheme of `proxy_url`: one bound to an address of ours."""

    SCHEMES = ("from",)

    def __init__(self, url: str) -> None:
        self._address = url.partition("//")[2]

    def socket(self, *kind: int) -> object:
        made = super().socket(*kind)
        made.bind((self._address, 0))
        return made


def _use(place: Place, clients: Sequence[UsedClient], seconds: float) -> bool:
    """Send with all of them for a while; returns whether it is over."""
    ends_at = time.monotonic() + seconds
    while True:
        for client in clients:
            client.send()
        left_s = ends_at - time.monotonic()
        if place.stop.wait(max(0.0, min(_BEAT_S, left_s))):
            return True
        if left_s <= _BEAT_S:
            return False


def _close(clients: Sequence[UsedClient]) -> None:
    for client in clients:
        client.close()

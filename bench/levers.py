"""What each lever does to producers that are made per message, to a known one of the same user, and to alice.

    .venv/bin/python bench/levers.py                        # half an hour; needs root on Linux, a JDK, Go and npm
    .venv/bin/python bench/levers.py --clients java --parallel 10 --levers hold
    .venv/bin/python bench/levers.py --own-client-id ''     # new and known producers with a library's default

Mallory's producers come from one address, alice's from another. Each decision is written by hand; the tap and the
enforcer are the product's. Each line compares a crowd under a lever with the same crowd without.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import enforce
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from crowds import ALICES, HERS, LIBRARIES, Crowd, Steady, crowd, make_hosts, prepare, steady
from tap_cost import cpu_seconds

from broker.kafka.holds import HoldBindings
from broker.kafka.quota_entity import QuotaEntity
from broker.kafka.topics import ensure_topics
from broker.local.local_broker import LocalBroker
from jvm.process import reading
from tables.delta import create_missing

LEVERS = ("hold", "connection_creation_rate", "request_percentage")
UNSHARE = "/usr/bin/unshare"
SETTLE_S = 4.0
DEFAULT_CLIENT_ID = "rdkafka"
LIMIT_S = 120.0


@dataclass(frozen=True)
class Measured:
    """What came through: messages a second, of new producers and of the known one; alice's p99 in milliseconds."""

    new: float
    known: float
    alice_ms: float


@dataclass(frozen=True)
class Scene:
    """Who is there: a crowd and the known producer on mallory's host, and alice."""

    crowd: Crowd
    known: Steady
    alice: Steady
    seconds: float
    settle_s: float

    def measure(self) -> Measured:
        """Wait for what was under way, then count."""
        time.sleep(self.settle_s)
        before, start = sum(self.crowd.counts), time.monotonic()
        time.sleep(self.seconds)
        new = (sum(self.crowd.counts) - before) / (time.monotonic() - start)
        alice = statistics.quantiles(self.alice.since(start), n=100, method="inclusive")[98]
        return Measured(new, len(self.known.since(start)) / self.seconds, alice)

    def seconds_until_all_are_through(self) -> float:
        """How long it takes until each of the crowd has delivered one more."""
        counts, start = list(self.crowd.counts), time.monotonic()
        wait(lambda: all(now > then for now, then in zip(self.crowd.counts, counts, strict=True)))
        return time.monotonic() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", default=",".join(LIBRARIES))
    parser.add_argument("--parallel", default="1,10,100")
    parser.add_argument("--levers", default=",".join(LEVERS))
    parser.add_argument("--seconds", type=float, default=8.0, help="length of each measurement")
    parser.add_argument("--settle", type=float, default=SETTLE_S, help="seconds before each, for what is under way")
    parser.add_argument("--own-client-id", default="mallory-batch", help="of mallory's new producers")
    parser.add_argument("--waiting", type=int, default=0, help="Java producers whose waiting costs the broker")
    parser.add_argument("--inside", metavar="JSON", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        make_hosts()
        compare_all(json.loads(options.inside), options)
        return
    with tempfile.TemporaryDirectory() as folder:
        commands = prepare(options.clients.split(","), Path(folder))
        inside = [sys.executable, __file__, *sys.argv[1:], "--inside", json.dumps(commands)]
        with reading([UNSHARE, "--net", *inside]) as process:
            for line in process.stdout or ():
                print(line, end="", flush=True)


def compare_all(commands: dict[str, list[str]], options: argparse.Namespace) -> None:
    with world() as (broker, tables):
        print("client, parallel, lever: new/s free, then; known then/free; alice's p99 in ms free, then")
        for client, command in commands.items():
            for parallel in map(int, options.parallel.split(",")):
                client_id = options.own_client_id or DEFAULT_CLIENT_ID
                with scene(command, broker, client_id, parallel, options) as there:
                    free = there.measure()
                    for lever in options.levers.split(","):
                        with in_force(lever, broker, tables, client_id):
                            held = there.measure()
                        through = there.seconds_until_all_are_through()
                        print(
                            f"{client:15s}  {parallel:8d}  {lever:24s}  {free.new:8.1f}, {held.new:6.2f}"
                            f"  {held.known / free.known:15.2f}  {free.alice_ms:12.1f}, {held.alice_ms:5.1f}"
                            f"  all through in {through:.2f} s"
                            + (f"; {there.crowd.failed} failed" if there.crowd.failed else ""),
                            flush=True,
                        )
                        there.crowd.failed = 0
                        time.sleep(SETTLE_S)
        if options.waiting:
            cost_of_waiting(commands["java"], broker, tables, options.waiting, options.seconds)


@contextmanager
def world() -> Iterator[tuple[LocalBroker, Path]]:
    """A broker with the class, its tap, and empty tables."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        create_missing(str(folder / "tables"))
        with LocalBroker(folder / "kafka", holds=True) as broker:
            admin = AdminClient(broker.admin_config())
            admin.create_topics([NewTopic(topic, 1, 1) for topic in ("orders", "known")])["orders"].result()
            ensure_topics(broker.admin_config())
            tap = ["tap", "--log-file", broker.log_file, "--broker-id", 1, "--learn-seconds", 0]
            with enforce.job(folder, *tap, "--bootstrap-servers", broker.admin_servers):
                yield broker, folder / "tables"


@contextmanager
def scene(
    command: Sequence[str], broker: LocalBroker, client_id: str, parallel: int, options: argparse.Namespace
) -> Iterator[Scene]:
    known_id = "mallory-known" if options.own_client_id else DEFAULT_CLIENT_ID
    with ExitStack() as stack:
        known = {**broker.client_config("mallory"), "client.id": known_id}
        steadies = [
            stack.enter_context(steady(*each, "known"))
            for each in ((HERS, known), (ALICES, broker.client_config("alice")))
        ]
        state = stack.enter_context(crowd(command, broker, "orders", client_id, parallel))
        wait(lambda: bool(state.counts) and min(state.counts) > 0)
        yield Scene(state, *steadies, options.seconds, options.settle)


@contextmanager
def in_force(lever: str, broker: LocalBroker, tables: Path, client_id: str) -> Iterator[None]:
    """From when the enforcer's lever is on the broker, until it took it back."""
    with enforce.quotas_of(broker) as quotas, HoldBindings({"bootstrap_servers": broker.admin_servers}) as holds:
        looks: dict[str, Callable[[], object]] = {
            "hold": lambda: holds.of_user("mallory"),
            "connection_creation_rate": lambda: quotas.describe(QuotaEntity(ip=HERS.address)),
            "request_percentage": quotas.describe_all,
        }

        def decide_for(seconds: float) -> None:
            refused = {"client_ids": [(client_id, 20)], "addresses": [(HERS.address, 20)]}
            enforce.decide(tables, "User:mallory", seconds, **refused)

        def is_there() -> bool:
            # Until the enforcer knows the addresses, it uses another lever: not for longer than need be.
            decide_for(3.0)
            time.sleep(0.5)
            return bool(looks[lever]())

        with enforce.enforcer(broker, tables, "--lever", lever):
            wait(is_there)
            decide_for(600.0)
            yield
    enforce.forget_decisions(tables)


def cost_of_waiting(command: Sequence[str], broker: LocalBroker, tables: Path, count: int, seconds: float) -> None:
    idle = cpu_share(broker, seconds)
    with in_force("hold", broker, tables, "mallory-batch"), crowd(command, broker, "orders", "x", count) as state:
        wait(lambda: len(state.counts) == count)
        time.sleep(30)
        waiting = cpu_share(broker, seconds)
        delivered = sum(state.counts)
    print(f"broker CPU: idle {idle:.2f}, {count} Java producers waiting {waiting:.2f} cores; delivered {delivered}")


def cpu_share(broker: LocalBroker, seconds: float) -> float:
    """Cores that the broker's process uses."""
    before = cpu_seconds(broker.pid or 0)
    time.sleep(seconds)
    return (cpu_seconds(broker.pid or 0) - before) / seconds


def wait(condition: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > give_up_at:
            raise TimeoutError
        time.sleep(0.01)


if __name__ == "__main__":
    main()

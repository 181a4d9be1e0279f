"""Random clients with known causes: no diagnosis leaves the cause out."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from lifecycle.churn import Churn
from lifecycle.churn_evidence import MIN_NEW_PIDS
from tables.query.churn_clients import diagnosis_of
from tables.query.sql_query import query
from tests.kits.kip_kit import append_kip_tables, now
from tests.unit.jobs.table_rows import append
from tests.unit.jobs.test_client_patterns import DAY, HOUR, Pattern, Request, rows_of, uses_of

CLIENTS = 200
ADDRESSES = (1, 1, 2, 3, 8, 30)


def between(random: Random, low: float, high: float) -> float:
    """A random number, equally often of each order of magnitude."""
    return math.exp(random.uniform(math.log(low), math.log(high)))


def times(random: Random, gap_s: float, count: int) -> list[float]:
    """Times in seconds ago, at regular, jittering or random intervals, the earliest first."""
    waits: Callable[[], float] = random.choice(
        [lambda: gap_s, lambda: gap_s * random.uniform(0.8, 1.2), lambda: random.expovariate(1 / gap_s)]
    )
    found = [random.choice([1.0, 30.0, between(random, 60, 12 * HOUR)])]
    while len(found) < count:
        found.append(found[-1] + waits())
    return found[::-1]


def host(number: int, addresses: int) -> str:
    return f"10.0.{number % addresses // 250}.{number % addresses % 250}"


def leak(random: Random) -> Iterator[Request]:
    """Producers that are opened and kept; all may pause from the last one on."""
    begins, addresses = times(random, between(random, 1, 900), random.randint(30, 400)), random.choice(ADDRESSES)
    last = random.choice([1.0, begins[-1]])
    return (Request(at, min(at, last), host(n, addresses)) for n, at in enumerate(begins))


def per_message(random: Random) -> Iterator[Request]:
    begins, addresses = times(random, between(random, 0.2, 600), random.randint(30, 500)), random.choice(ADDRESSES)
    use_s = random.choice([0.05, 0.5, 3, 20])
    return (
        Request(at, max(0.1, at - use_s * random.uniform(0.5, 1.5)), host(n, addresses)) for n, at in enumerate(begins)
    )


def serverless(random: Random) -> Iterator[Request]:
    """A container with an address of its own for each message."""
    begins = times(random, between(random, 1, 600), random.randint(30, 300))
    return (Request(at, max(0.1, at - 0.5), host(n, 60_000)) for n, at in enumerate(begins))


def restart_loop(random: Random) -> Iterator[Request]:
    """Replicas that crash after some time, and come back after a fixed or a growing wait."""
    addresses, use_s, down_s = random.choice(ADDRESSES), between(random, 0.5, 3000), random.choice([1, 3, 10, 60, 300])
    varies, grows = random.random() < 0.5, random.random() < 0.3
    begin, count, found = between(random, 1, 6 * HOUR), random.randint(8, 80), []
    for replica in range(random.choice([1, 1, 3, 8, 40])):
        at = begin + random.uniform(0, 10)
        for number in range(count):
            use = use_s * (random.uniform(0.1, 1) if varies else 1)
            at += use + (min(300, 10 * 2 ** (count - number)) if grows else down_s)
            found.append(Request(at, max(0.5, at - use), host(replica, addresses)))
    return iter(sorted(found, key=lambda each: -each.at_s))


def deploys(random: Random) -> Iterator[Request]:
    pods, addresses = random.randint(5, 100), random.choice(ADDRESSES)
    roll_s = between(random, 5, 900)
    gap_s = max(2 * roll_s, between(random, 1800, 8 * HOUR))
    begins = [random.uniform(1, 6 * HOUR) + gap_s * number for number in range(random.randint(2, 6))][::-1]
    for begin, following in zip(begins, [*begins[1:], 0.0], strict=True):
        for pod in range(pods):
            late_s = roll_s * pod / pods
            at = max(1.0, begin - late_s)
            yield Request(at, max(0.5, min(at, following - late_s)), host(pod, addresses))


def scale_out(random: Random) -> Iterator[Request]:
    begins, addresses = times(random, between(random, 0.5, 300), random.randint(6, 300)), random.choice((1, 30, 60_000))
    return (Request(at, 0.5, host(n, addresses)) for n, at in enumerate(begins))


def new_transactional_ids(random: Random) -> Iterator[Request]:
    gap_s, tasks = between(random, 2, 600), random.choice([1, 1, 3, 8])
    for number, at in enumerate(times(random, gap_s, random.randint(20, 200))):
        for task in range(tasks):
            name = f"sink-{number}-{task}"
            yield Request(at, max(0.5, at - 0.9 * gap_s), host(task, 8), transactional_id=name)


CAUSES: tuple[tuple[Churn, Callable[[Random], Iterator[Request]]], ...] = (
    (Churn.LEAK, leak),
    (Churn.PER_MESSAGE, per_message),
    (Churn.PER_MESSAGE, serverless),
    (Churn.RESTART_LOOP, restart_loop),
    (Churn.DEPLOY, deploys),
    (Churn.SCALE_OUT, scale_out),
    (Churn.NEW_TRANSACTIONAL_ID, new_transactional_ids),
)


def seen_earlier(requests: list[Request], random: Random) -> list[Request]:
    """The same client at an earlier moment: what came later has not happened yet."""
    cut_s = random.uniform(requests[-1].at_s, requests[0].at_s)
    moved = (replace(each, at_s=each.at_s - cut_s + 1, last_s=max(0.5, each.last_s - cut_s + 1)) for each in requests)
    return [each for each in moved if each.at_s >= 1]


def clients(random: Random) -> Iterator[Pattern]:
    for number in range(CLIENTS):
        cause, requests_of = CAUSES[number % len(CAUSES)]
        requests = list(requests_of(random))
        if random.random() < 0.4:
            requests = seen_earlier(requests, random)
        kept = tuple(each for each in requests if each.at_s < DAY - 60)
        # Fewer ids are no churn yet.
        if len(kept) >= MIN_NEW_PIDS:
            yield Pattern(f"client-{number}", cause, kept)


@settings(max_examples=2)
@given(random=st.randoms(use_true_random=True))
def test_a_diagnosis_never_leaves_the_cause_out_nor_names_it_as_if_no_other_could_be(random: Random) -> None:
    patterns = {f"User:{each.name}": each for each in clients(random)}
    firsts = accumulate((len(each.requests) for each in patterns.values()), initial=0)
    numbered = list(zip(firsts, patterns.values(), strict=False))
    with TemporaryDirectory() as tables:
        append_kip_tables(Path(tables), inits=[row for first, each in numbered for row in rows_of(each, first)])
        append(tables, "producer_id_metrics", *(uses_of(each, first) for first, each in numbered))
        rows = query(tables, "TABLE principal_churn", now()).records()

    assert {row["principal"] for row in rows} == patterns.keys()
    for row in rows:
        pattern = patterns[row["principal"]]
        for evidence in (row, {**row, "lives": None}):
            found = diagnosis_of(evidence)
            assert pattern.cause in (found.kind, *found.could_be, *found.unlikely), (evidence, found)
            assert found.could_be or found.unlikely or found.kind is pattern.cause, (evidence, found)

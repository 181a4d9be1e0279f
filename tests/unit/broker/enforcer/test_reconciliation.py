"""The control loop: it does not sleep through a decision, and it ends what it began."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from broker.enforcer.enforcer_metrics import EnforcerMetrics
from broker.enforcer.reconciliation import run
from broker.enforcer.stream_watch import StreamWatch
from tests.broker_kit import wait_until
from tests.unit.broker.enforcer.enforcer_kit import MALLORY, World

AN_HOUR_S = 3600.0


def run_until(world: World, stop: threading.Event) -> None:
    watch = StreamWatch(lambda: world.now_ms, lambda: 0, world.enforcer.alert, silence_ms=60_000)
    run(world.enforcer, watch, stop, AN_HOUR_S, world.notices.append, EnforcerMetrics(lambda: world.now_ms))


def has_throttled(world: World, user: str) -> bool:
    return user in [notice.principal for notice in world.said("throttled")]


def test_a_decision_is_carried_out_without_waiting_for_the_next_read_and_ends_with_the_enforcer() -> None:
    world, stop = World(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_until, world, stop)
        try:
            for user in ("User:mallory", "User:alice", "User:bob"):
                world.decide(user)
                wait_until(partial(has_throttled, world, user), user)
        finally:
            stop.set()
        running.result()
    assert len(world.said("throttled")) == 3
    assert (world.broker.quotas, world.log.states(MALLORY)[-1]) == ({}, "restored")

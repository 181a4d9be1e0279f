"""Breaks the enforcer on purpose, in one way at a time, and prints how many walks it takes to find each.

Run it with `PYTHONPATH=. .venv/bin/python tests/fuzz/enforcement/mutants.py [NAME ...]`; it ends with 1 if one is not
found.
"""

import sys
from typing import Any
from unittest.mock import patch

from broker.enforcement.clock import BrokersTime, Deadlines
from broker.enforcement.lease_registry import LeaseRegistry
from broker.enforcement.levers import client_quota, hold
from broker.enforcement.levers.base import NextStep
from broker.enforcement.levers.canary import Canary
from broker.enforcement.levers.connection_rate import ConnectionRate
from broker.enforcement.model import Lease, Releases, ThrottleDecision
from broker.enforcement.planner import Planner
from broker.enforcement.reconcile import Enforcer
from tests.fuzz.enforcement.run import wrong
from tests.fuzz.mutation import Mutants

MOST = 3000
MUTANTS = Mutants()


@MUTANTS.of(hold, "next_step")
def a_later_end_than_the_lease_s_is_somebody_else_s(honest: Any) -> Any:
    def next_step(lease: Lease, found: Any, now_ms: int) -> Any:
        if found and max(found) > lease.until_ms:
            return NextStep("relinquish", "someone else set a later end")
        return honest(lease, found, now_ms)

    return next_step


@MUTANTS.of(BrokersTime, "measured")
def a_clock_that_is_set_back_puts_ends_off(_: Any) -> Any:
    def measured(self: BrokersTime, *_: int) -> None:
        vars(self)["_ahead_ms"] = vars(self)["_wall_ms"]() - vars(self)["_steady_ms"]()

    return measured


@MUTANTS.of(hold, "next_step")
def a_hold_is_never_removed(honest: Any) -> Any:
    def next_step(lease: Lease, found: Any, now_ms: int) -> NextStep:
        step = honest(lease, found, now_ms)
        return NextStep("close") if step.name == "restore" else step

    return next_step


@MUTANTS.of(client_quota, "next_step")
def a_quota_of_an_admin_is_overwritten_at_the_end(honest: Any) -> Any:
    def next_step(lease: Lease, found: Any, now_ms: int) -> NextStep:
        step = honest(lease, found, now_ms)
        is_end = lease.state == "restoring" or lease.is_due(now_ms)
        return NextStep("restore") if step.name == "relinquish" and is_end else step

    return next_step


@MUTANTS.of(client_quota, "next_step")
def a_lease_in_force_goes_on_although_its_value_was_changed(honest: Any) -> Any:
    def next_step(lease: Lease, found: Any, now_ms: int) -> NextStep:
        step = honest(lease, found, now_ms)
        return NextStep("apply") if step.name == "relinquish" and lease.state == "in_force" else step

    return next_step


@MUTANTS.of(LeaseRegistry, "write_ahead")
def leases_are_not_written_ahead(_: Any) -> Any:
    def write_ahead(self: LeaseRegistry, leases: Any, _now_ms: int) -> None:
        self.leases.update({lease.target: lease for lease, _ in leases})

    return write_ahead


@MUTANTS.of(Enforcer, "_holds_lock")
def who_gets_the_lock_again_does_not_look_what_happened_meanwhile(honest: Any) -> Any:
    def holds_lock(self: Enforcer) -> Any:
        vars(self)["_times_taken"] = vars(self)["_ports"].lock.times_taken
        return honest(self)

    return holds_lock


@MUTANTS.of(Planner, "receive")
def an_older_decision_outlives_a_newer_one(honest: Any) -> Any:
    def receive(self: Planner, decisions: Any, now_ms: int) -> dict[str, int]:
        honest(self, decisions, now_ms)
        return {}

    return receive


MUTANTS |= {
    "this_host_s_clock_counts": lambda: patch.object(BrokersTime, "measured", lambda *_: None),
    "a_shortened_lease_is_not_shortened_on_the_brokers": lambda: patch.object(Enforcer, "_shorten", lambda *_: None),
    "a_lease_ends_by_no_monotonic_clock": lambda: patch.object(
        Deadlines, "end_ms", lambda _self, _name, until_ms, _now_ms: until_ms
    ),
    "a_decision_lasts_as_long_as_it_says": lambda: patch.object(
        ThrottleDecision, "received", lambda self, _now_ms: self
    ),
    "those_who_are_never_touched_are_touched": lambda: patch("broker.enforcement.planner.may_touch", lambda *_: True),
    "an_address_is_limited_whoever_uses_it": lambda: patch.object(ConnectionRate, "_why_end", lambda *_: ""),
    "the_canary_is_left_behind": lambda: patch.object(Canary, "close", lambda _self: None),
    "release_orders_are_not_obeyed": lambda: patch.object(Releases, "covers", lambda *_: False),
}


def fails(seed: int) -> str:
    try:
        return wrong(seed)
    except Exception as error:
        return repr(error)


if __name__ == "__main__":
    sys.exit(MUTANTS.main(fails, MOST))

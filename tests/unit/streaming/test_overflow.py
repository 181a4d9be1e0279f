import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.limits import Limit, Quotas
from quota.principals import NEVER_ENFORCED, OVERFLOW_PRINCIPALS
from streaming.batch.tracked_principals import TrackedPrincipals, code_of
from streaming.decode.overflow import Gate, overflow_key
from tests.kits.batch_kit import KnownBatch


def tracked_of(*principals: str) -> TrackedPrincipals:
    return TrackedPrincipals().changed(map(code_of, principals), (), 0)


NAMES = st.lists(st.sampled_from([f"User:{n}" for n in range(12)]), unique=True, max_size=12)


@given(tracked=NAMES, blocks=st.lists(NAMES, max_size=6), share=st.integers(0, 12))
def test_who_is_tracked_passes_always_and_of_the_others_those_who_come_first(
    tracked: list[str], blocks: list[list[str]], share: int
) -> None:
    gate, known = Gate(tracked_of(*tracked), share), set(tracked)
    new: set[str] = set()

    for block in blocks:
        beyond = gate.keys(block)
        for principal in block:
            if principal not in known and principal not in new and len(new) < share:
                new.add(principal)
            is_tracked = principal in known or principal in new
            assert (principal not in beyond) == is_tracked
            assert is_tracked or beyond[principal] in OVERFLOW_PRINCIPALS


def test_principals_that_are_never_enforced_take_no_room() -> None:
    assert Gate(TrackedPrincipals(), 0).keys(["unknown", "User:ANONYMOUS"]) == {}


def test_a_principal_with_a_quota_of_its_own_is_tracked_beyond_the_limit() -> None:
    gate = Gate(TrackedPrincipals(), 0, Quotas({"vip": Limit(5.0, "user")}))

    assert gate.keys(["User:vip", "User:a"]).keys() == {"User:a"}
    assert gate.keys(["User:vip"]) == {}


def test_overflow_entries_are_never_enforced_and_no_more_than_64() -> None:
    keys = {overflow_key(f"User:{number}") for number in range(10_000)}

    assert len(keys) == 64
    assert keys <= NEVER_ENFORCED


@pytest.mark.parametrize(("max_tasks", "admitted"), [(None, 10), (2, 15), (100, 10)])
def test_room_is_shared_out_evenly_to_the_tasks_of_the_batch(max_tasks: int | None, admitted: int) -> None:
    gate = Gate.open(KnownBatch(partitions=3).context(), 30, max_tasks)

    assert len(gate.keys([f"User:{number}" for number in range(25)])) == 25 - admitted


def test_who_is_tracked_adds_and_drops_principals_and_keeps_the_newest_overflow() -> None:
    tracked = tracked_of("User:a", "User:b").changed([code_of("User:c")], [code_of("User:a")], 7).changed([], [], 3)

    assert tracked.holds(["User:a", "User:b", "User:c"]).tolist() == [False, True, True]
    assert (len(tracked), tracked.overflowed_ms) == (2, 7)

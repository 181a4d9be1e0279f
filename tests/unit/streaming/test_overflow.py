from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.limits import Limit, Quotas
from quota.principals import NEVER_ENFORCED, OVERFLOW_PRINCIPALS
from streaming.batch.batch_ends import FOLDER as END_FOLDER
from streaming.batch.batch_ends import tracked_principals_before, write_end
from streaming.batch.batch_quotas import write_input
from streaming.batch.tasks import TaskBatch
from streaming.batch.tracked_principals import (
    FOLDER,
    TRACKED,
    TrackedPrincipals,
    code_of,
)
from streaming.checkpoint import own_files
from streaming.decode.overflow import Gate, overflow_key
from streaming.errors import CheckpointError


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
def test_room_is_shared_out_evenly_to_the_tasks_of_the_batch(
    tmp_path: Path, max_tasks: int | None, admitted: int
) -> None:
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    (offsets / "0").write_text('v1\n{}\n{"produce-events":{"0":5,"1":5,"2":5}}')
    write_input(str(tmp_path), 0, Quotas())
    gate = Gate.of(TaskBatch(str(tmp_path)), 30, max_tasks)

    assert len(gate.keys([f"User:{number}" for number in range(25)])) == 25 - admitted


def test_who_is_tracked_adds_and_drops_principals_and_keeps_the_newest_overflow() -> None:
    tracked = tracked_of("User:a", "User:b").changed([code_of("User:c")], [code_of("User:a")], 7).changed([], [], 3)

    assert tracked.holds(["User:a", "User:b", "User:c"]).tolist() == [False, True, True]
    assert (len(tracked), tracked.overflowed_ms) == (2, 7)


def test_a_repeated_batch_finds_who_was_tracked_the_first_time(tmp_path: Path) -> None:
    folder = str(tmp_path)

    def tracked_after(batch_id: int, *principals: str) -> list[int]:
        write_end(folder, batch_id, {TRACKED: [code_of(principal) for principal in principals]})
        return [len(tracked_principals_before(folder, batch)) for batch in (batch_id, batch_id + 1)]

    assert tracked_after(0, "User:a") == [0, 1]
    assert tracked_after(1) == [1, 1]
    assert tracked_after(2, "User:b") == [1, 2]
    assert tracked_after(2, "User:b", "User:c") == [1, 3]


def test_only_the_files_that_a_batch_may_need_are_kept(tmp_path: Path) -> None:
    for batch in range(10):
        write_end(str(tmp_path), batch, {TRACKED: [code_of(f"User:{batch}")]})

    assert sorted(file.stem for file in (tmp_path / END_FOLDER).iterdir()) == ["7", "8", "9"]
    assert len(list((tmp_path / FOLDER).iterdir())) == 2


def test_a_damaged_file_is_named_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_files, "WHOLE_WITHIN_S", 0.0)
    write_end(str(tmp_path), 0, {TRACKED: [code_of("User:a")]})
    (file,) = (tmp_path / FOLDER).iterdir()
    file.write_bytes(b"\xc1")

    with pytest.raises(CheckpointError, match=rf"{file.name} can't be read .* restore it from a backup"):
        tracked_principals_before(str(tmp_path), 1)

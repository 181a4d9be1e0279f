import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.attribution.bindings import Bindings
from broker.attribution.owners import Owners, unplaced
from wire.records import Binding, ProduceEvent

DAY_MS = 24 * 3600 * 1000


def binding(producer_id: int, principal: str = "User:alice", *, epoch: int = 0, at_ms: int = 0) -> Binding:
    return Binding(producer_id, epoch, principal, "app", f"tx-{producer_id}", 1, at_ms)


def batch(producer_id: int, at_ms: int = 1) -> ProduceEvent:
    return unplaced(at_ms, producer_id, 0, 1, "orders", 0)


@pytest.fixture
def bindings() -> Iterator[Bindings]:
    with Bindings(hot=10, stored=100) as made:
        yield made


@pytest.fixture
def owners(bindings: Bindings) -> Owners:
    return Owners(bindings, wait_s=30, max_waiting=5, max_unknown=3)


def test_a_binding_in_time_places_all_batches_that_wait_for_it(owners: Owners) -> None:
    owners.wait(batch(7, 1), 0)
    owners.wait(batch(8, 2), 1)
    owners.wait(batch(7, 3), 2)

    placed = owners.bind(binding(7))

    assert placed is not None
    assert [(e.principal, e.timestamp_ms, e.transactional_id, e.correction) for e in placed] == [
        ("User:alice", 1, "tx-7", False),
        ("User:alice", 3, "tx-7", False),
    ]
    assert [event.producer_id for event in owners.waiting()] == [8]


def test_the_time_to_wait_is_bounded(owners: Owners) -> None:
    owners.wait(batch(7), 0)
    owners.wait(batch(8), 10)

    assert owners.expire(29.9) == []
    assert [(event.producer_id, event.principal) for event in owners.expire(30)] == [(7, "unknown")]
    assert [event.producer_id for event in owners.expire(40)] == [8]
    assert owners.expire(1000) == []


def test_the_number_that_waits_is_bounded(owners: Owners) -> None:
    gone = [event.producer_id for number in range(8) for event in owners.wait(batch(number), 0)]

    assert gone == [0, 1, 2]
    assert len(owners.waiting()) == 5
    assert owners.counters.unplaced == 3


def test_a_late_binding_makes_one_correction(owners: Owners) -> None:
    owners.wait(batch(7, 5), 0)
    owners.wait(batch(7, 6), 0)
    assert len(owners.expire(30)) == 2

    corrections = owners.bind(binding(7))
    again = owners.bind(binding(7, epoch=1))

    assert corrections is not None
    assert [(e.principal, e.producer_id, e.timestamp_ms, e.correction) for e in corrections] == [
        ("User:alice", 7, 6, True)
    ]
    assert again == []
    assert owners.counters.corrections == 1


def test_what_a_correction_can_be_made_for_is_bounded(owners: Owners) -> None:
    for number in range(5):
        owners.wait(batch(number), 0)
        owners.expire(1000)

    assert [bool(owners.bind(binding(number))) for number in range(5)] == [False, False, True, True, True]


def test_a_binding_is_announced_again_once_a_day_while_it_is_used(owners: Owners) -> None:
    used = binding(7, at_ms=1000)
    owners.bind(used)

    assert not owners.is_due(used, 1000 + DAY_MS)
    assert owners.is_due(used, 1001 + DAY_MS)
    assert not owners.is_due(used, 1002 + DAY_MS)
    assert owners.is_due(used, 2000 + 2 * DAY_MS)


def test_what_another_tap_announced_today_is_not_announced_again(owners: Owners) -> None:
    used = binding(7, at_ms=0)
    owners.bind(used)
    owners.announced(7, 3 * DAY_MS)

    assert not owners.is_due(used, 3 * DAY_MS + 5)


@pytest.mark.parametrize(
    ("later", "winner"),
    [
        (binding(7, "User:bob", epoch=1, at_ms=5), "User:bob"),
        (binding(7, "User:bob", epoch=0, at_ms=11), "User:bob"),
        # Another broker's clock may be behind: the epoch tells.
        (binding(7, "User:bob", epoch=1, at_ms=9), "User:bob"),
        (binding(7, "User:bob", epoch=0, at_ms=9), "User:alice"),
        (binding(7, "User:bob", epoch=-1, at_ms=99), "User:alice"),
    ],
)
def test_the_later_binding_wins_wherever_the_other_lies(later: Binding, winner: str, bindings: Bindings) -> None:
    for hot in (True, False):
        for first, second in ((binding(7, at_ms=10), later), (later, binding(7, at_ms=10))):
            with Bindings(hot=2) as fresh:
                fresh.add(first, hot=hot)
                fresh.add(second, hot=hot)
                found = fresh.find(7)
                assert found is not None
                assert found.principal == winner


def test_bindings_of_transactions_are_found_after_memory_forgot_them(bindings: Bindings) -> None:
    for number in range(50):
        bindings.add(binding(number))
    bindings.add(Binding(99, 0, "User:alice", "app"))
    for number in range(50):
        bindings.find(number)

    assert bindings.find_hot(0) is None
    assert [found.producer_id for number in range(50) if (found := bindings.find(number))] == list(range(50))
    # Its thread tells whose it is.
    assert bindings.find(99) is None


def test_the_store_forgets_the_longest_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.attribution.bindings._BATCH", 10)
    with Bindings(hot=1, stored=100) as bindings:
        for number in range(1000):
            bindings.add(binding(number), hot=False)
            assert bindings.find(5) is None or number >= 5

        known = [number for number in range(1000) if bindings.find(number)]

    assert 5 in known
    assert set(range(900, 1000)) <= set(known)
    assert len(known) <= 220


def test_a_killed_tap_leaves_nothing_behind_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.attribution.bindings._BATCH", 10)
    with Bindings(tmp_path, hot=1) as bindings:
        for number in range(100):
            bindings.add(binding(number))

        # Its file has no name while it is in use, and is there all the same.
        assert list(tmp_path.iterdir()) == []
        assert bindings.find(5) is not None


def test_what_an_earlier_version_left_behind_is_removed_and_nothing_else(tmp_path: Path) -> None:
    old, new, other = (tmp_path / name for name in ("pid-quota-bindings-a", "pid-quota-bindings-b", "tap.position"))
    for folder in (old, new):
        folder.mkdir()
        (folder / "bindings").touch()
    other.touch()
    os.utime(old, (0, 0))

    with Bindings(tmp_path):
        assert sorted(tmp_path.iterdir()) == [new, other]

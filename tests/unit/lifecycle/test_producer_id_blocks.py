from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from lifecycle.producer_id_blocks import (
    BLOCK_LENGTH,
    CLOCK_TOLERANCE_MS,
    MAX_PRODUCER_ID,
    Block,
    BlockLoss,
    find_violations,
    hours_left,
    lost_at_restarts,
    pids_per_hour,
)
from tests.kits.allocator_kit import Allocator

HOUR_MS = 3_600_000


def block(
    number: int, broker_id: int = 1, broker_epoch: int = 5, hour: int | None = None, length: int = BLOCK_LENGTH
) -> Block:
    at_ms = (number if hour is None else hour) * HOUR_MS
    return Block(number * BLOCK_LENGTH, length, broker_id, broker_epoch, at_ms)


class TestPromises:
    @given(
        st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.integers(0, 60_000)), max_size=40),
        st.integers(0, 10**6),
        st.randoms(),
    )
    def test_whatever_the_allocator_gives_keeps_them(
        self, steps: list[tuple[int, bool, int]], zookeeper_end: int, random: Random
    ) -> None:
        allocator = Allocator.after_zookeeper(zookeeper_end)
        given_out: list[Block] = []
        now_ms = 0
        for broker_id, restarts, passed_ms in steps:
            now_ms += passed_ms
            if restarts or broker_id not in allocator.brokers:
                allocator.brokers[broker_id] = max(allocator.brokers.values(), default=0) + 1
            given_out.append(allocator.allocate(broker_id, now_ms))
        random.shuffle(given_out)
        assert find_violations(given_out) == []
        assert all(block.first > zookeeper_end for block in given_out)

    def test_two_blocks_of_the_same_ids_overlap_whenever_they_were_given(self) -> None:
        first, second = block(4), replace(block(4), broker_id=2, allocated_at_ms=block(4).allocated_at_ms + 1)
        (found,) = find_violations([second, first])
        assert (found.promise, found.block, found.other) == ("no overlap", second, 5000)

    def test_a_block_that_lies_in_a_gap_before_earlier_ones_is_too_low(self) -> None:
        (found,) = find_violations([block(1), block(9, hour=2), block(5, hour=3)])
        assert (found.promise, found.block.first, found.other) == ("start >= last end", 5000, 10_000)

    def test_order_within_the_tolerance_of_clocks_says_nothing(self) -> None:
        early = replace(block(9), allocated_at_ms=0)
        late = replace(block(5), allocated_at_ms=CLOCK_TOLERANCE_MS - 1)
        assert find_violations([early, late]) == []
        assert len(find_violations([early, replace(late, allocated_at_ms=CLOCK_TOLERANCE_MS)])) == 1

    def test_a_block_for_an_epoch_that_was_over_is_stale(self) -> None:
        blocks = [block(1, broker_epoch=5), block(2, broker_epoch=9), block(3, broker_epoch=5)]
        (found,) = find_violations(blocks)
        assert (found.promise, found.block.first, found.other) == ("epoch not stale", 3000, 9)

    def test_epochs_of_other_brokers_and_unknown_ones_make_nothing_stale(self) -> None:
        assert find_violations([block(1, 1, 50), block(2, 2, 5), block(3, 1, -1)]) == []


class TestLostAtRestarts:
    def test_the_rest_of_the_block_in_use_is_lost(self) -> None:
        blocks = [block(0, broker_epoch=5), block(1, broker_epoch=5), block(2, broker_epoch=9)]
        assert lost_at_restarts(blocks, {1000: 1249}) == [BlockLoss(blocks[1], 750, is_exact=True)]

    def test_a_block_that_was_fetched_ahead_is_lost_whole_with_the_rest_of_the_one_in_use(self) -> None:
        blocks = [block(0, broker_epoch=5), block(1, broker_epoch=5), block(2, broker_epoch=9)]
        assert lost_at_restarts(blocks, {0: 949}) == [
            BlockLoss(blocks[0], 50, is_exact=True),
            BlockLoss(blocks[1], 1000, is_exact=False),
        ]

    def test_without_any_id_seen_it_is_the_most_that_it_can_be(self) -> None:
        blocks = [block(0), block(1), block(2), block(3, broker_epoch=9)]
        assert [(loss.block.first, loss.pids) for loss in lost_at_restarts(blocks, {})] == [(1000, 100), (2000, 1000)]

    def test_a_block_used_up_and_the_newest_life_of_a_broker_lose_nothing(self) -> None:
        assert lost_at_restarts([block(0), block(1, broker_epoch=9)], {0: 999}) == []
        assert lost_at_restarts([block(0, 1), block(1, 2, 9)], {}) == []


def test_ids_never_run_out_if_none_are_handed_out() -> None:
    assert hours_left(0, 0) is None
    assert hours_left(MAX_PRODUCER_ID - 100, 50) == 2


def test_a_block_holds_its_ids_and_no_other() -> None:
    held = block(4)
    assert [pid in held for pid in (3999, 4000, 4999, 5000)] == [False, True, True, False]


def test_the_rate_is_of_the_last_day_or_of_as_long_as_blocks_are_known() -> None:
    blocks = [block(0, 1), block(1, 2), block(2, 1)]
    assert pids_per_hour(blocks, 4 * HOUR_MS) == {1: 500, 2: 250}
    assert pids_per_hour(blocks, 25 * HOUR_MS) == {1: 1000 / 24, 2: 0}
    assert pids_per_hour(blocks[:1], 60_000) == {1: 1000}
    assert pids_per_hour([], 0) == {}

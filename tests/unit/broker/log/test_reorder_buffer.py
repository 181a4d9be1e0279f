from hypothesis import given
from hypothesis import strategies as st

from broker.log.reorder_buffer import MAX_HELD_LINES, WAIT_S, ReorderBuffer


def taken(order: ReorderBuffer, *numbers: int, now_s: float = 0.0) -> list[int | None]:
    """What is read of lines that come with these numbers; None where some are missing."""
    out: list[int | None] = []
    for number in numbers:
        if number == order.next and not order.waits:
            order.next += 1
            out.append(number)
        else:
            out += (int(line) if line else None for line in order.push(number, b"%d" % number, now_s))
    return out


@given(st.permutations(range(1, 30)))
def test_lines_of_threads_that_write_side_by_side_are_put_in_order(numbers: list[int]) -> None:
    order = ReorderBuffer()

    assert [number for number in taken(order, 50, *(50 + each for each in numbers)) if number] == list(range(50, 80))
    assert order.lost_lines == 0


def test_a_line_that_never_comes_is_lost_after_a_while_and_counted() -> None:
    order = ReorderBuffer()

    assert taken(order, 1, 2, 4, 5) == [1, 2]
    assert order.flush_expired(WAIT_S / 2) == []
    assert order.flush_expired(WAIT_S) == [None, b"4", b"5"]
    assert order.lost_lines == 1
    assert taken(order, 6) == [6]


def test_gaps_side_by_side_wait_at_the_same_time() -> None:
    order = ReorderBuffer()
    taken(order, 1, *range(3, 200, 2))
    taken(order, 301, now_s=WAIT_S / 2)

    assert len(order.flush_expired(WAIT_S)) == 2 * 99
    assert order.flush_expired(WAIT_S) == []
    assert order.flush_expired(1.5 * WAIT_S) == [None, b"301"]
    assert order.lost_lines == 99 + 101


def test_a_line_that_comes_after_all_is_read_and_not_lost() -> None:
    order = ReorderBuffer()
    taken(order, 1, 3)
    order.flush_expired(WAIT_S)

    # What its thread did meanwhile is not known.
    assert taken(order, 2, 4) == [None, 2, None, 4]
    assert order.lost_lines == 0


def test_many_lines_do_not_wait_for_one() -> None:
    order = ReorderBuffer()

    read = taken(order, 1, *range(3, MAX_HELD_LINES + 10))

    assert read == [1, None, *range(3, MAX_HELD_LINES + 10)]
    assert order.held() == []


def test_a_broker_that_starts_again_is_another_one() -> None:
    order = ReorderBuffer()

    assert taken(order, 1, 2, 3, 5) == [1, 2, 3]
    # Its last line but one was in no file when it died.
    assert taken(order, 2, 1, 3) == [None, 5, None, 1, 2, 3]
    assert order.lost_lines == 1


def test_what_a_shipper_sends_again_is_read_again() -> None:
    order = ReorderBuffer()

    assert taken(order, 500_000, 500_001, 400_000, 400_001) == [500_000, 500_001, None, 400_000, 400_001]


@given(st.lists(st.integers(1, 2**60) | st.integers(1, 50), max_size=60))
def test_no_numbers_raise_and_no_line_is_kept_back_for_ever(numbers: list[int]) -> None:
    order = ReorderBuffer()

    read = [number for number in taken(order, *numbers) if number]
    for step, _ in enumerate(numbers, 1):
        read += (int(line) for line in order.flush_expired(10.0 * step) if line)

    assert sorted(read) == sorted(numbers)
    assert order.held() == []

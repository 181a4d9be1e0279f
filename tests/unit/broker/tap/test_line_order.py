import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.tap.line_order import LineOrder, Place
from tests.kits.class_lines_kit import ClassLines
from wire.broker_lines import ClassState, decode_line

NEXT, AFTER_LOSS, LATE, DUPLICATE = Place.NEXT, Place.AFTER_LOSS, Place.LATE, Place.DUPLICATE


def places(*lines: bytes, order: LineOrder | None = None) -> list[Place]:
    order = order or LineOrder()
    return [order.follow(decode_line(line)) for line in lines]


def drops_more(order: LineOrder, line: bytes) -> bool:
    state = decode_line(line)
    order.follow(state)
    assert isinstance(state, ClassState)
    return order.drops_more(state)


def test_lines_with_consecutive_numbers_follow_one_another_however_long_the_silence() -> None:
    lines = ClassLines()

    assert places(lines.start(), lines.batch(1), lines.pass_s(86_400).alive(), lines.init(2)) == [NEXT] * 4


def test_a_tap_may_begin_in_the_middle_of_a_run() -> None:
    lines = ClassLines().lose(500)

    assert places(lines.batch(1), lines.alive(), lines.batch(2)) == [NEXT] * 3


def test_a_number_that_is_missing_is_a_loss_and_the_next_line_follows() -> None:
    lines, order = ClassLines(), LineOrder()

    assert places(lines.start(), lines.lose(3).batch(1), lines.batch(2), order=order) == [NEXT, AFTER_LOSS, NEXT]
    assert order.gaps == [(2, 4)]


def test_lines_that_a_shipper_delivers_again_are_duplicates() -> None:
    lines = ClassLines()
    first, second, third = lines.start(), lines.batch(1), lines.alive()

    assert places(first, second, third, first, second, third, lines.batch(2)) == [*[NEXT] * 3, *[DUPLICATE] * 3, NEXT]


def test_lines_of_a_clock_that_was_set_back_are_duplicates_when_they_come_again() -> None:
    lines = ClassLines()
    before = [lines.start(), lines.batch(1)]
    after = lines.pass_s(-60).batch(2)

    assert places(*before, after, *before) == [*[NEXT] * 3, *[DUPLICATE] * 2]


def test_a_line_that_was_overtaken_is_late_once() -> None:
    lines = ClassLines()
    start, *overtaken, newest = lines.start(), lines.batch(1), lines.batch(2), lines.batch(3), lines.batch(4)

    found = places(start, newest, overtaken[1], overtaken[0], overtaken[1], overtaken[2], lines.batch(5))

    assert found == [NEXT, AFTER_LOSS, LATE, LATE, DUPLICATE, LATE, NEXT]


def test_of_many_gaps_the_newest_sixteen_may_still_be_filled() -> None:
    # given 17 lines that were overtaken, each by the next one
    lines, order = ClassLines(), LineOrder()
    places(lines.start(), order=order)
    pairs = [(lines.batch(number), lines.batch(number)) for number in range(17)]
    places(*(newer for _, newer in pairs), order=order)

    found = places(*(older for older, _ in pairs), order=order)

    assert found == [DUPLICATE, *[LATE] * 16]


@pytest.mark.parametrize("shutdown", [True, False])
def test_a_run_follows_another_only_if_the_broker_had_shut_down(shutdown: bool) -> None:
    lines = ClassLines()

    found = places(lines.start(), lines.stop(shutdown=shutdown), lines.pass_s(3600).start(), lines.batch(1))

    assert found == [NEXT, NEXT, NEXT if shutdown else AFTER_LOSS, NEXT]


def test_a_run_after_a_broker_that_was_killed_comes_after_a_loss() -> None:
    lines = ClassLines()

    assert places(lines.start(), lines.batch(1), lines.start(), lines.batch(2)) == [NEXT, NEXT, AFTER_LOSS, NEXT]


def test_a_run_after_one_of_the_same_length_comes_after_a_loss() -> None:
    # given a broker that died with its first line, and a second run whose first line is missing
    lines = ClassLines()
    first = lines.start()
    lines.start()

    assert places(first, lines.batch(1), lines.alive()) == [NEXT, NEXT, AFTER_LOSS]


def test_a_run_whose_first_lines_are_missing_is_no_row_of_duplicates() -> None:
    lines, order = ClassLines(), LineOrder()
    first = [lines.start(), *(lines.batch(number) for number in range(10))]
    lines.start()

    found = places(*first, lines.batch(1), lines.batch(2), lines.alive(), order=order)

    # The alive line then tells its name, which was not known.
    assert found == [*[NEXT] * 11, AFTER_LOSS, NEXT, NEXT]
    assert (order.run, order.next) == (lines.run, 5)


def test_the_first_lines_of_a_run_may_come_late() -> None:
    # given a second run whose first batch was overtaken, and whose start is lost
    lines = ClassLines()
    first = [lines.start(), *(lines.batch(number) for number in range(10))]
    lines.start()
    overtaken, newer = lines.batch(1), lines.batch(2)

    assert places(*first, newer, overtaken, lines.batch(3)) == [*[NEXT] * 11, AFTER_LOSS, LATE, NEXT]


def test_a_run_whose_clock_was_set_back_shows_by_its_name() -> None:
    lines = ClassLines()
    first = [lines.start(), *(lines.batch(number) for number in range(10))]

    found = places(*first, lines.pass_s(-3600).start(), lines.batch(1))

    assert found == [*[NEXT] * 11, AFTER_LOSS, NEXT]


def test_after_lines_may_be_missing_any_number_follows() -> None:
    lines, order = ClassLines(), LineOrder()
    places(lines.start(), lines.batch(1), lines.batch(2), order=order)

    order.forget()

    assert places(lines.lose(4).batch(3), lines.alive(), order=order) == [NEXT, NEXT]


def test_lines_that_the_class_dropped_show_by_its_counter() -> None:
    lines, order = ClassLines(), LineOrder()
    states = [lines.start(), *(lines.alive(dropped_lines=count) for count in (0, 0, 3, 3, 7))]

    assert [drops_more(order, each) for each in states] == [False, False, False, True, False, True]


def test_lines_dropped_before_a_tap_began_are_no_loss() -> None:
    assert not drops_more(LineOrder(), ClassLines().lose(9).alive(dropped_lines=5))


def test_lines_dropped_before_the_first_received_line_of_a_run_are_a_loss() -> None:
    lines, order = ClassLines(), LineOrder()
    places(lines.start(), lines.batch(1), order=order)
    lines.start()

    assert drops_more(order, lines.alive(dropped_lines=1))


@given(st.lists(st.sampled_from(["batch", "alive", "lose", "again", "swap", "kill", "stop"]), max_size=60))
def test_a_loss_is_seen_before_the_next_line_and_nothing_is_taken_twice(steps: list[str]) -> None:
    lines, order = ClassLines(), LineOrder()
    taken: list[tuple[str, int]] = []
    sent = [lines.start()]
    is_lost = False
    order.follow(decode_line(sent[0]))
    for step in steps:
        if step == "lose":
            lines.lose()
            is_lost = True
            continue
        if step == "again":
            assert order.follow(decode_line(sent[-1])) is DUPLICATE
            continue
        if step in ("kill", "stop"):
            if step == "stop":
                order.follow(decode_line(lines.stop(shutdown=False)))
            sent.append(lines.start())
            is_lost = True
        elif step == "swap":
            first, second = lines.batch(1), lines.batch(2)
            order.follow(decode_line(second))
            assert order.follow(decode_line(first)) is LATE
            is_lost = False
            sent.append(second)
            continue
        else:
            sent.append(lines.batch(1) if step == "batch" else lines.alive())
        place = order.follow(decode_line(sent[-1]))
        assert place is (AFTER_LOSS if is_lost else NEXT)
        taken.append((lines.run, lines.number))
        is_lost = False
    assert len(set(taken)) == len(taken)

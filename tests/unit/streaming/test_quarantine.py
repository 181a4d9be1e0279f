from streaming.decode.quarantine import MAX_ROWS, Sampler
from wire.packed_events import Quarantined


def bad(count: int, first: int = 0, reason: str = "no good", partition: int = 2) -> list[Quarantined]:
    return [Quarantined(b"x", reason, "events", partition, first + number, 0) for number in range(count)]


def test_a_few_bad_records_are_all_kept_and_nothing_is_said_of_others() -> None:
    sampler = Sampler()

    assert sampler.sample(bad(MAX_ROWS)) == bad(MAX_ROWS)
    assert sampler.left_out() == []


def test_reasons_that_are_all_different_do_not_grow_the_count_without_end() -> None:
    sampler = Sampler()
    for number in range(20_000):
        sampler.sample(bad(1, number, f"reason {number} " + "x" * 5000))

    (rest,) = sampler.left_out()
    assert len(rest.reason) < 1500
    assert "others" in rest.reason


def test_a_flood_in_one_partition_leaves_the_sample_of_another_alone() -> None:
    sampler = Sampler()

    kept = sampler.sample([*bad(3 * MAX_ROWS, partition=0), *bad(10, partition=1)])

    assert [record.offset for record in kept if record.partition == 1] == list(range(10))
    assert [(rest.partition, rest.offset) for rest in sampler.left_out()] == [(0, MAX_ROWS + 1)]

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.tap import known_ids
from broker.tap.known_ids import KnownIdAnswers, KnownIds, Watched

IDS = st.integers(0, 2**63 - 1)


@given(st.lists(st.lists(IDS | st.integers(0, 20))), st.lists(IDS | st.integers(0, 20)))
def test_it_knows_what_a_partition_held_and_nothing_else(partitions: list[list[int]], others: list[int]) -> None:
    held = {each for partition in partitions for each in partition}

    found = KnownIds.of({}, partitions)

    assert len(found) == len(held)
    assert [each in found for each in others] == [each in held for each in others]
    assert all(each in found for each in held)


def test_more_than_fit_into_one_part_are_merged_without_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_ids, "_CHUNK", 3)
    monkeypatch.setattr(known_ids, "_PIECE", 2)

    found = KnownIds.of({}, [[5, 1, 9], [1, 2, 9, 7], [], [3, 5], [0]])

    assert found.ids == array("q", [0, 1, 2, 3, 5, 7, 9])


def asked(asked_at_ms: int, *ids: int, answered_at_ms: int = 100, streams: str = "a", since_ms: int = 1) -> KnownIds:
    return KnownIds(dict.fromkeys(streams, Watched(since_ms, asked_at_ms)), array("q", ids), answered_at_ms)


class TestAnswersToRequests:
    """A stream that forgot takes an id as new if no broker held it."""

    def test_an_id_that_no_broker_held_is_new_after_the_last_had_answered(self) -> None:
        answers = KnownIdAnswers("a", None, (asked(70, 5),))

        # An old id of an earlier line may be missing from the answer.
        assert [answers.check(6, at_ms, 1, learning=False) for at_ms in (99, 100, 101)] == [
            *((False, None), (False, None), (False, 70)),
        ]
        assert answers.check(5, 101, 1, learning=False) == (False, None)

    def test_an_answer_given_before_a_broker_was_there_says_nothing_of_its_ids(self) -> None:
        assert KnownIdAnswers("b", None, (asked(70, 5, streams="a"),)).check(6, 101, 1, learning=False) == (
            False,
            None,
        )

    def test_the_newest_question_counts_that_did_not_find_the_id(self) -> None:
        answers = KnownIdAnswers("a", None, (asked(90, 5, 6), asked(80, 5), asked(70, 5)))

        assert [answers.check(each, 101, 1, learning=False)[1] for each in (5, 6, 7)] == [None, 80, 90]

    def test_of_the_watch_s_question_and_a_request_the_later_counts(self) -> None:
        for of_watch, requested in ((60, 70), (70, 60)):
            answers = KnownIdAnswers("a", asked(of_watch, 5), (asked(requested, 5),))
            assert answers.check(6, 101, 1, learning=True) == (False, 70)

    def test_an_id_that_was_there_before_the_watch_is_learned_whatever_a_request_found(self) -> None:
        assert KnownIdAnswers("a", asked(60, 6), (asked(70, 5),)).check(6, 101, 1, learning=True) == (True, None)
        assert KnownIdAnswers("a", asked(60, 6), (asked(70, 5),)).check(6, 101, 1, learning=False) == (False, 70)


def test_lines_up_to_the_answer_are_learned_in_the_watch_it_is_for() -> None:
    answers = KnownIdAnswers("a", asked(70, 5))

    assert [answers.check(6, at_ms, 1, learning=True) for at_ms in (100, 101)] == [(True, None), (False, 70)]
    assert answers.check(6, 101, 2, learning=True) == (True, None)

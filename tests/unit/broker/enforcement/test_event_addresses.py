import pytest

from broker.enforcement.store import event_addresses
from broker.enforcement.store.event_addresses import AddressBook

HERE, THERE = "10.0.0.5", "10.0.0.6"
ALICE, MALLORY = "User:alice", "User:mallory"


@pytest.fixture
def book() -> AddressBook:
    book = AddressBook()
    book.learn(MALLORY, [HERE, THERE], 100)
    book.learn(ALICE, [THERE], 200)
    return book


def test_everybody_who_used_an_address_is_known(book: AddressBook) -> None:
    assert book.principals(HERE, 0) == {MALLORY}
    assert book.principals(THERE, 0) == {MALLORY, ALICE}
    assert book.principals("10.0.0.7", 0) == set()
    assert book.unavailable_reason(0) == ""


def test_only_what_was_used_since_a_time_counts(book: AddressBook) -> None:
    assert book.principals(THERE, 100) == {MALLORY, ALICE}
    assert book.principals(THERE, 101) == {ALICE}
    book.learn(MALLORY, [THERE], 300)
    assert book.principals(THERE, 300) == {MALLORY}


def test_an_event_that_comes_late_makes_no_use_older(book: AddressBook) -> None:
    book.learn(ALICE, [THERE], 50)
    assert book.principals(THERE, 200) == {ALICE}


def test_old_addresses_are_forgotten(book: AddressBook) -> None:
    book.forget(200)
    assert (book.principals(HERE, 0), book.principals(THERE, 0)) == (set(), {ALICE})


@pytest.mark.parametrize("others", [[], [HERE]])
def test_an_event_without_an_address_leaves_it_open_who_uses_one(book: AddressBook, others: list[str]) -> None:
    book.learn(ALICE, [None, *others], 300)
    assert "have no address" in book.unavailable_reason(300)
    # Once it is too old to count, all is known again.
    assert book.unavailable_reason(301) == ""
    book.learn(ALICE, [None], 100)
    assert book.unavailable_reason(301) == ""


def test_users_of_an_address_are_unknown_if_a_user_arrives_when_the_book_is_full(
    book: AddressBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_addresses, "_MAX_PAIRS", 3)
    book.learn(ALICE, [THERE], 300)
    assert book.unavailable_reason(0) == "", "whom it knows needs no room"
    book.learn(ALICE, [HERE], 400)
    assert book.principals(HERE, 0) == {MALLORY}
    assert "more than 3 pairs" in book.unavailable_reason(400)
    assert book.unavailable_reason(401) == ""


def test_forgotten_addresses_make_room(book: AddressBook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_addresses, "_MAX_PAIRS", 3)
    book.forget(200)
    for number in (1, 2):
        book.learn(f"User:{number}", [HERE], 300)
    assert (len(book.principals(HERE, 0)), book.unavailable_reason(0)) == (2, "")
    book.learn("User:3", [HERE], 300)
    assert "more than 3 pairs" in book.unavailable_reason(300)

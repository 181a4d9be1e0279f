import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.limits import Limit
from state.codec import decode, encode
from state.errors import LedgerCodecError
from state.events import Deployment
from state.ledger import Ledger
from tests.kits.ledger_kit import events_at


def full_ledger() -> bytes:
    ledger = Ledger("User:mallory", Deployment())
    ledger.process(events_at(10**12, range(500), ("app", "10.0.0.7")), Limit(100.0, "user"))
    return ledger.to_bytes()


def test_a_ledger_reads_back_as_it_was_written() -> None:
    content = full_ledger()

    assert encode(decode(content)) == content
    assert Ledger("User:mallory", Deployment(), content).to_bytes() == content


@pytest.mark.parametrize("rate", [100, 100.0, 0.1, None])
def test_a_batch_that_changes_nothing_leaves_the_same_bytes_and_no_row(rate: float | None) -> None:
    limit = Limit(rate, "user")
    events = events_at(10**12, [1, 2])
    stored = Ledger("User:a", Deployment()).process(events, limit).content

    again = Ledger("User:a", Deployment(), stored).process(events, limit)

    assert (again.content, again.metrics) == (stored, ())


@given(cut=st.integers(0, 400))
def test_a_truncated_ledger_is_refused(cut: int) -> None:
    with pytest.raises(LedgerCodecError):
        decode(full_ledger()[:cut])


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "are not a ledger"),
        (b"PAR1 something else", "are not a ledger"),
        (b"PQL\x63" + full_ledger()[4:], "version 99, this release reads 5"),
        (b"PQL\x01" + full_ledger()[4:], "version 1, this release reads 5: it restarts in learning mode for a window"),
        (full_ledger()[:-1] + b"\x00\x00", "fails its checksum"),
    ],
)
def test_foreign_newer_and_damaged_bytes_are_refused_with_what_is_wrong(content: bytes, complaint: str) -> None:
    with pytest.raises(LedgerCodecError, match=complaint):
        decode(content)

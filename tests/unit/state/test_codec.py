import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quota.episode import Episode
from quota.limits import Limit
from state.codec import LedgerState, decode, encode
from state.errors import LedgerCodecError
from state.events import CHARGED, Deployment, Events
from state.ledger import Ledger

HEADER_BYTES = 8
EPISODE = LedgerState.__struct_fields__.index("episode")
EPISODE_OF_0_1_0 = (
    "start_ms", "decided_at_ms", "decided_tick", "throttled_until_ms", "throttle_time_ms", "renewal", "refused",
    "sample_pids", "client_ids",
)  # fmt: skip


def full_ledger() -> bytes:
    ledger = Ledger("User:mallory", Deployment())
    clients = [("app", "10.0.0.7")] * 500
    ledger.process(Events(list(range(500)), [10**12] * 500, clients, [False] * 500), Limit(100.0, "user"))
    return ledger.to_bytes()


def test_a_ledger_reads_back_as_it_was_written() -> None:
    content = full_ledger()

    assert encode(decode(content)) == content
    assert Ledger("User:mallory", Deployment(), content).to_bytes() == content


@pytest.mark.parametrize("rate", [100, 100.0, 0.1, None])
def test_a_batch_that_changes_nothing_leaves_the_same_bytes_and_no_row(rate: float | None) -> None:
    limit = Limit(rate, "user")
    events = Events([1, 2], [10**12] * 2, [("app", "")] * 2, [False] * 2)
    stored = Ledger("User:a", Deployment()).process(events, limit).content

    again = Ledger("User:a", Deployment(), stored).process(events, limit)

    assert (again.content, again.metrics) == (stored, ())


def stored_by_an_earlier_version(content: bytes) -> bytes:
    """A ledger with the fields of an episode that 0.1.0 stored."""
    state = msgspec.msgpack.decode(content[HEADER_BYTES:])
    state[EPISODE] = state[EPISODE][: len(EPISODE_OF_0_1_0)]
    body = msgspec.msgpack.encode(state)
    return content[:4] + zlib.crc32(body).to_bytes(4, "big") + body


def test_fields_that_an_earlier_version_did_not_store_come_last() -> None:
    assert Episode.__struct_fields__[: len(EPISODE_OF_0_1_0)] == EPISODE_OF_0_1_0


@pytest.mark.parametrize("address", ["", "10.0.0.7"])
def test_an_episode_that_an_earlier_version_stored_goes_on_with_the_addresses_that_come_from_now_on(
    address: str,
) -> None:
    limit, deployment, address_of_all = Limit(1.0, "user"), Deployment(), "10.0.0.1" if address else ""
    events = Events([1, 2, 3], [10**12] * 3, [("app", address_of_all)] * 3, [CHARGED] * 3)
    stored = Ledger("User:a", deployment).process(events, limit).content
    earlier = stored_by_an_earlier_version(stored)

    again = Ledger("User:a", deployment, earlier).process(events, limit)
    one_more = Events([4], [10**12 + 1], [("app", address)], [CHARGED])
    later = Ledger("User:a", deployment, again.content).process(one_more, limit)
    end = Events([1], [10**12 + 10**8], [("app", "")], [CHARGED])
    (released,) = Ledger("User:a", deployment, later.content).process(end, limit).decisions

    # Nothing is written until something happens.
    assert (again.content, again.metrics) == (earlier, ())
    assert (stored == earlier) is not bool(address)
    assert released.action == "RELEASE"
    assert (released.evidence.refused_pids, released.evidence.client_ids) == (2, {"app": 2})
    assert released.evidence.addresses == ({address: 1} if address else {})


@given(cut=st.integers(0, 400))
def test_a_truncated_ledger_is_refused(cut: int) -> None:
    with pytest.raises(LedgerCodecError):
        decode(full_ledger()[:cut])


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "are not a ledger"),
        (b"PAR1 something else", "are not a ledger"),
        (b"PQL\x63" + full_ledger()[4:], "version 99, this release reads 2"),
        (b"PQL\x01" + full_ledger()[4:], "version 1, this release reads 2: it restarts in learning mode for a window"),
        (full_ledger()[:-1] + b"\x00\x00", "fails its checksum"),
    ],
)
def test_foreign_newer_and_damaged_bytes_are_refused_with_what_is_wrong(content: bytes, complaint: str) -> None:
    with pytest.raises(LedgerCodecError, match=complaint):
        decode(content)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log.log_file import LineCutter


@given(lines=st.lists(st.binary(max_size=40)), cuts=st.lists(st.integers(1, 30)), rest=st.binary(max_size=30))
def test_however_a_file_is_cut_into_chunks_its_lines_are_the_same(
    lines: list[bytes], cuts: list[int], rest: bytes
) -> None:
    text = b"".join(line + b"\n" for line in lines) + rest
    cutter, found, at = LineCutter(), [], 0
    for size in [*cuts, len(text)]:
        found += cutter.cut(text[at : at + size])
        at += size
        if at >= len(text):
            break

    expected = text.split(b"\n")
    assert found == expected[:-1]
    assert cutter.unfinished_bytes == len(expected[-1])


def test_of_a_line_that_is_too_long_the_beginning_is_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.log.log_file.MAX_LINE_BYTES", 10_000)
    cutter = LineCutter()
    chunks = [b"one\n" + b"x" * 6_000, *[b"x" * 6_000] * 50, b"y\ntwo\n"]

    found = [line for chunk in chunks for line in cutter.cut(chunk)]

    assert found == [b"one", b"x" * 1024, b"two"]
    assert (cutter.oversized_lines, cutter.unfinished_bytes) == (1, 0)


def test_a_long_line_is_read_in_time_that_is_linear() -> None:
    # Joined anew for each chunk, these are 2 GB.
    cutter = LineCutter()
    for _ in range(65_000):
        assert cutter.cut(b"1") == []

    assert cutter.cut(b"\n") == [b"1" * 65_000]

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log.line_cutter import LineCutter
from broker.log.log_layout import JSON_END, XML_END


@pytest.mark.parametrize("end", [JSON_END, XML_END])
@given(lines=st.lists(st.binary(max_size=40)), cuts=st.lists(st.integers(1, 30)), rest=st.binary(max_size=30))
def test_however_a_log_is_cut_into_chunks_its_lines_are_the_same(
    end: bytes, lines: list[bytes], cuts: list[int], rest: bytes
) -> None:
    text = b"".join(line + end for line in lines) + rest
    cutter, found, at = LineCutter(end), [], 0
    for size in [*cuts, len(text)]:
        found += cutter.cut(text[at : at + size])
        at += size
        if at >= len(text):
            break

    expected = text.split(end)
    assert found == expected[:-1]
    assert cutter.unfinished_bytes == len(expected[-1])


@pytest.mark.parametrize("end", [JSON_END, XML_END])
def test_of_a_line_that_is_too_long_the_beginning_is_handed_out_as_cut(
    end: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.log.line_cutter.MAX_LINE_BYTES", 10_000)
    cutter = LineCutter(end)
    chunks = [b"one" + end + b"x" * 6_000, *[b"x" * 6_000] * 50, b"y" + end[:5], end[5:] + b"two" + end]

    found = [line for chunk in chunks for line in cutter.cut(chunk)]

    assert found == [b"one", b"x" * 1024 + b"...", b"two"]
    assert (cutter.oversized_lines, cutter.unfinished_bytes) == (1, 0)


def test_a_long_line_is_read_in_time_that_is_linear() -> None:
    # Joined anew for each chunk, these are 40 GB.
    cutter = LineCutter(JSON_END)
    for _ in range(100_000):
        assert cutter.cut(b"12345678") == []

    assert cutter.cut(b"\n") == [b"12345678" * 100_000]

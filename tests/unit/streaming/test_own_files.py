from pathlib import Path

import pytest

from streaming.checkpoint import own_files
from streaming.checkpoint.own_files import await_file


def whole(content: bytes) -> bytes:
    if not content.endswith(b"."):
        msg = "cut short"
        raise ValueError(msg)
    return content


def test_a_file_seen_in_part_is_read_again_until_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"a")

    def decode(content: bytes) -> bytes:
        # Each time a byte more is there, as a copying rename shows it.
        file.write_bytes(content + (b"." if len(content) == 3 else b"a"))
        return whole(content)

    assert await_file(file, decode) == b"aaa."


def test_a_file_that_stays_damaged_or_away_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("APPEARS_WITHIN_S", "WHOLE_WITHIN_S"):
        monkeypatch.setattr(own_files, limit, 0.1)
    (tmp_path / "damaged").write_bytes(b"a")

    with pytest.raises(ValueError, match="cut short"):
        await_file(tmp_path / "damaged", whole)
    with pytest.raises(FileNotFoundError):
        await_file(tmp_path / "away", whole)

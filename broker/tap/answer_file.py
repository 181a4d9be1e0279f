"""Stores the producer ids that the brokers held when they were asked, beside the tap's position."""

import zlib
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from broker.tap.known_ids import KnownIds, Watched
from broker.tap.position_file import write_atomically


class _Kept(msgspec.Struct, array_like=True):
    """An answer for the watches `streams`, without its ids, which follow the first line of the file."""

    streams: list[str]
    watched: dict[str, Watched]
    answered_at_ms: int
    count: int
    crc32: int
    requested: bool = False
    requested_ms: int = 0


def save_answers(file: Path, answers: Mapping[str, KnownIds], requested: Sequence[KnownIds] = ()) -> None:
    """Save the answers for watches and for requests of streams atomically; if that fails, the next run asks again."""
    distinct = list({id(each): each for each in (*requested, *answers.values())}.values())
    head = [
        _Kept(
            [stream for stream, answer in answers.items() if answer is each],
            each.watched,
            each.answered_at_ms,
            len(each),
            zlib.crc32(each.ids),
            any(each is other for other in requested),
            each.requested_ms,
        )
        for each in distinct
    ]
    with suppress(OSError):
        write_atomically(file, [msgspec.json.encode(head) + b"\n", *(each.ids for each in distinct)])


def load_answers(file: Path) -> tuple[dict[str, KnownIds], tuple[KnownIds, ...]]:
    """Load the answers; none if the file is missing or damaged: a wrong id would charge an old producer."""
    found: dict[str, KnownIds] = {}
    requested: list[KnownIds] = []
    try:
        with file.open("rb") as content:
            for kept in msgspec.json.decode(content.readline(), type=list[_Kept]):
                ids = array("q")
                ids.frombytes(content.read(kept.count * ids.itemsize))
                if len(ids) != kept.count or zlib.crc32(ids) != kept.crc32:
                    return {}, ()
                answer = KnownIds(kept.watched, ids, kept.answered_at_ms, kept.requested_ms)
                found |= dict.fromkeys(kept.streams, answer)
                if kept.requested:
                    requested.append(answer)
    except (OSError, ValueError):
        return {}, ()
    return found, tuple(requested)

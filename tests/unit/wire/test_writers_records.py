"""Records by which streams say that they are alive, and versions of the others."""

import pytest

from wire.holds import (
    Headers,
    WriterRecord,
    parse_hold_record,
    parse_writer_record,
    writer_headers,
    writer_key,
)


@pytest.mark.parametrize(
    "record",
    [
        WriterRecord("s", 5),
        WriterRecord("s", 5, 0, version="1.0"),
        WriterRecord("host/tables", 2**53, 17, is_gone=True, version="1.0"),
        WriterRecord("writer:ä", 1, 2, is_gone=True),
    ],
)
def test_a_writer_is_read_as_it_was_written(record: WriterRecord) -> None:
    assert parse_writer_record(writer_key(record.writer), writer_headers(record)) == record


@pytest.mark.parametrize(
    ("key", "headers"),
    [
        (b"writer:s", []),
        (b"writer:s", [("since", b"1")]),
        (b"writer:s", [("epoch", b"-1")]),
        (b"writer:s", [("epoch", b"1.5")]),
        (b"writer:s", [("epoch", b"")]),
        (b"writer:s", [("epoch", None)]),
        (b"writer:s", [("epoch", "²")]),
        (b"writer:s", [("epoch", b"9" * 19)]),
        (b"writer:s", [("epoch", b"9" * 5_000)]),
        (b"writer:s", [("epoch", b"1"), ("since", b"x")]),
        (b"writer:s", [("epoch", b"1"), ("version", b"\xff")]),
        (b"writer:\xff", [("epoch", b"1")]),
        (b"writer:", [("epoch", b"1")]),
        (b"User:s", [("epoch", b"1")]),
        (None, [("epoch", b"1")]),
    ],
)
def test_a_record_that_is_no_writer_s_is_none(key: bytes | None, headers: Headers) -> None:
    assert parse_writer_record(key, headers) is None


@pytest.mark.parametrize("value", [None, b"", b'{"version":1,"cluster_id":"c","hold_ms":1,"until_ms":1,"writer":"w"}'])
def test_a_writer_s_record_holds_and_releases_nobody(value: bytes | None) -> None:
    assert parse_hold_record(writer_key("s"), value) is None


@pytest.mark.parametrize("version", ["", '"version":null,', '"version":"1",', '"version":2,'])
def test_a_hold_or_release_without_the_known_version_is_none(version: str) -> None:
    hold = f'{{{version}"cluster_id":"c","hold_ms":1,"until_ms":1,"writer":"w"}}'.encode()
    free = f'{{{version}"cluster_id":"c","release_ms":1}}'.encode()
    assert parse_hold_record(b"User:a", hold) is None
    assert parse_hold_record(b"release:User:a", free) is None
    assert parse_hold_record(b"User:a", hold.replace(version.encode(), b"", 1).replace(b"{", b'{"version":1,', 1))

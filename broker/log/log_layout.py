r"""Decodes log records (time, thread, logger, message) in both layouts that our log settings write.

Kafka 4 (`log4j2-pid-quota.yaml`): one JSON object per line, `{"sn", "ts", "thread", "logger", "message"}`. `sn` numbers
the lines since the broker's start (`broker.log.reorder_buffer`); settings of earlier versions write none.

Kafka 3 (`log4j-pid-quota.properties`, log4j 1's XMLLayout): `<log4j:event ...>`, the message as CDATA, and its end.
The message may hold newlines or a whole forged record, but never the end of its CDATA: so the log is split there only,
from the file's beginning or an earlier split. Each piece but the first begins with the tail of the previous record.

Shippers may wrap a record into an object with `message` or `log` (`unwrap`).
"""

import re
from typing import Annotated
from xml.sax.saxutils import unescape

import msgspec

from broker.errors import LogLineError

JSON_END = b"\n"
"""Delimiter of the JSON layout."""

XML_BEGIN = b"<log4j:event "
"""Beginning of a log in the XML layout."""

XML_END = b"]]></log4j:message>\r\n"
"""End of a message in the XML layout."""

_XML_CLOSED = b"</log4j:event>"
_XML_THROWN = b"<log4j:throwable><![CDATA["
_XML_THROWN_END = b"]]></log4j:throwable>\r\n"
_XML_HEAD = re.compile(
    rb'<log4j:event logger="([^"]*)" timestamp="(\d{1,18})" level="\w+" thread="([^"]*)">\r?\n'
    rb"<log4j:message><!\[CDATA\["
)
_XML_QUOTED = {"&quot;": '"'}
# Quotes of client texts are escaped in JSON: they can't forge this.
_NUMBER = re.compile(rb'"sn":(\d{1,18}),')

# Detects the head of one line joined to the tail of another, which can be a valid object. As above.
_MESSAGE = b'"message":"['


class LogLine(msgspec.Struct, frozen=True, gc=False):
    """One record of the log, its message unparsed.

    Attributes:
        ts: broker time in ms since the epoch.
        thread: name of the broker's thread.
        logger: last part of the logger's name.
        message: the text logged.
    """

    ts: Annotated[int, msgspec.Meta(ge=0, le=10**15)]
    thread: str
    logger: str
    message: str


class Shipped(msgspec.Struct, frozen=True, gc=False):
    """A record as delivered by a log shipper.

    Attributes:
        line: as the broker wrote it.
        broker: name or id of the broker, if the shipper added it.
    """

    line: bytes
    broker: str | None = None


class _Wrapper(msgspec.Struct, gc=False):
    ts: object = None
    thread: str | None = None
    message: str | None = None
    log: str | None = None
    broker_id: Annotated[int, msgspec.Meta(ge=-1, lt=2**31)] | str | None = None
    host: str | None = None


_decode_json = msgspec.json.Decoder(LogLine).decode
_decode_wrapper = msgspec.json.Decoder(_Wrapper).decode


def parse_line(line: bytes) -> LogLine:
    """Decode one record of either layout.

    Raises:
        LogLineError: it is neither.
    """
    if line.startswith(b"<"):
        return _parse_xml(line)
    if line.count(_MESSAGE) > 1:
        msg = "two lines of the tapped log joined into one: lines in between are lost"
        raise LogLineError(msg)
    try:
        return _decode_json(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        msg = f"not a line of the tapped log ({error}): write it with the appender of log4j2-pid-quota.yaml"
        raise LogLineError(msg) from error


def line_number(line: bytes) -> bytes | None:
    """Number of a line, as digits; None if it has none. Not read from XML, where a client could forge it."""
    found = _NUMBER.search(line) if line.startswith(b"{") else None
    return found[1] if found else None


def unwrap(value: bytes) -> Shipped:
    """Return the line in a shipper's record: the line itself, or the `message` or `log` of an object.

    Anything else is returned unchanged, for `parse_line` to reject.
    """
    if not value.startswith(b"{"):
        return Shipped(value.rstrip(b"\r\n"))
    try:
        wrapper = _decode_wrapper(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Shipped(value)
    broker = wrapper.broker_id if wrapper.broker_id is not None else wrapper.host
    name = None if broker is None else str(broker)
    if wrapper.ts is not None and wrapper.thread is not None:
        # Our own object, perhaps with added fields; its message holds client text and is no wrapped line.
        return Shipped(value, name)
    text = wrapper.message if wrapper.message is not None else wrapper.log
    return Shipped(value if text is None else text.rstrip("\r\n").encode(), name)


def _parse_xml(piece: bytes) -> LogLine:
    head = _XML_HEAD.match(piece, _after_former(piece))
    if head is None:
        msg = "not a record of the tapped log: write it with the appender of log4j-pid-quota.properties"
        raise LogLineError(msg)
    end = piece.find(XML_END.rstrip(), head.end())
    message = piece[head.end() : end if end >= 0 else len(piece)].replace(b"]]>]]&gt;<![CDATA[", b"]]>")
    try:
        logger, thread = (unescape(text.decode(), _XML_QUOTED) for text in (head[1], head[3]))
        return LogLine(int(head[2]), thread, logger.rpartition(".")[2], message.decode())
    except UnicodeDecodeError as error:
        msg = f"not UTF-8 ({error}): set the appender's encoding as in log4j-pid-quota.properties"
        raise LogLineError(msg) from error


def _after_former(piece: bytes) -> int:
    """Offset of a record after the tail of the previous one; a stack trace there may hold client text, too."""
    at = 0
    if piece.startswith(_XML_THROWN):
        end = piece.find(_XML_THROWN_END)
        if end < 0:
            return len(piece)
        at = end + len(_XML_THROWN_END)
    if piece.startswith(_XML_CLOSED, at):
        at += len(_XML_CLOSED)
    while piece[at : at + 1] in (b"\r", b"\n"):
        at += 1
    return at

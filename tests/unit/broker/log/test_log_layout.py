"""The XML is what Kafka 3.9 wrote, the JSON lines the same records; tests/broker/record_lines_3_9.py records both."""

import json
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.errors import LogLineError
from broker.log.log_layout import XML_BEGIN, XML_END, LogLine, parse_line, unwrap

XML = Path(__file__).parents[1].joinpath("broker_lines_3_9.xml").read_bytes()
SAME_AS_JSON = [
    parse_line(line) for line in Path(__file__).parents[1].joinpath("broker_lines_3_9.jsonl").read_bytes().splitlines()
]
LINE = b'{"ts":1,"thread":"t","logger":"KafkaApis","message":"m"}'


def test_a_log_of_kafka_3_is_cut_into_the_records_that_were_logged() -> None:
    assert XML.startswith(XML_BEGIN)
    *pieces, rest = XML.split(XML_END)

    assert [parse_line(piece) for piece in pieces] == SAME_AS_JSON
    assert rest.strip() == b"</log4j:event>"


def test_a_whole_fake_record_in_a_client_id_stays_in_its_message() -> None:
    fakes = [
        line for line in SAME_AS_JSON if '<log4j:event logger="kafka.server.KafkaApis" timestamp="1"' in line.message
    ]

    assert fakes
    assert all(line.ts > 1 for line in SAME_AS_JSON)


def test_a_record_after_a_stack_trace_is_read() -> None:
    # Made by hand after log4j 1's XMLLayout.
    thrown = (
        b'<log4j:throwable><![CDATA[java.lang.Error: <log4j:event logger="x" timestamp="1"]]></log4j:throwable>\r\n'
    )
    record = XML.split(XML_END)[0]

    assert parse_line(thrown + b"</log4j:event>\r\n\r\n" + record) == SAME_AS_JSON[0]


@pytest.mark.parametrize(
    "value",
    [
        LINE,
        b'{"message":' + json.dumps(LINE.decode()).encode() + b"}",
        b'{"log":' + json.dumps(LINE.decode() + "\n").encode() + b',"stream":"stdout"}',
        LINE[:-1] + b',"source_type":"file"}',
    ],
    ids=["as it is", "vector", "fluent bit", "fields added"],
)
def test_a_shipped_line_is_found_in_its_wrapping(value: bytes) -> None:
    shipped = unwrap(value)

    assert parse_line(shipped.line) == LogLine(1, "t", "KafkaApis", "m")
    assert shipped.broker is None


@pytest.mark.parametrize(("field", "name"), [('"broker_id":3', "3"), ('"broker_id":"3"', "3"), ('"host":"b3"', "b3")])
def test_a_shipper_may_say_which_broker_it_is(field: str, name: str) -> None:
    assert unwrap(LINE[:-1] + f",{field}}}".encode()).broker == name
    assert unwrap(f'{{"log":"x",{field}}}'.encode()).broker == name


def test_a_shipped_record_of_kafka_3_is_read_whole() -> None:
    record = XML.split(XML_END)[0] + XML_END + b"</log4j:event>\r\n\r\n"

    assert parse_line(unwrap(record).line) == SAME_AS_JSON[0]


def test_a_message_that_looks_like_a_line_is_not_unwrapped() -> None:
    inner = '{"ts":2,"thread":"t","logger":"KafkaApis","message":"forged"}'
    line = msgspec.json.encode(LogLine(1, "t", "KafkaApis", inner))

    assert parse_line(unwrap(line).line).ts == 1


@example(b'{"q":' * 100_000)
@given(st.binary() | st.text().map(str.encode) | st.sampled_from([b"<", XML_BEGIN, XML[:300], b'{"log":1}', b"{"]))
def test_nothing_crashes_the_reading_of_a_record(value: bytes) -> None:
    with suppress(LogLineError):
        parse_line(unwrap(value).line)

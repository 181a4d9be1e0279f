import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from broker.cluster.logging_levels import BROKER_LOGGERS, MARKER
from broker.local.server_files import LOG_TEMPLATE, write_log_settings
from wire.topics import OWN_TOPICS

DOCS = Path(__file__).parents[4] / "docs" / "broker-logging"
HERE = Path(__file__).parents[1]


def template() -> dict[str, Any]:
    parsed = yaml.safe_load(resources.files("broker").joinpath(LOG_TEMPLATE).read_text(encoding="utf-8"))
    return dict(parsed["Configuration"])


def kept(message: str) -> bool:
    regex = template()["Appenders"]["RollingFile"]["RegexFilter"]["regex"]
    regex = re.sub(r"\$\{sys:[^:]+:-([^}]*)\}", r"\1", regex)
    # Python 3.10 has neither possessive quantifiers nor lookbehinds of several widths: the same in its words.
    regex = regex.replace(".*+(?<!;", "(?!.*;").replace("pid-quota-shipper))|", r"pid-quota-shipper)\Z).*|")
    return re.fullmatch(regex, message) is not None


def recorded(name: str) -> list[str]:
    return [json.loads(line)["message"] for line in (HERE / name).read_text(encoding="utf-8").splitlines()]


def properties(file: Path) -> dict[str, str]:
    pairs = (line.partition("=") for line in file.read_text(encoding="utf-8").splitlines() if line[:1] not in ("", "#"))
    return {name: value for name, _, value in pairs}


def test_every_recorded_line_of_kafka_4_passes_its_filter() -> None:
    assert all(kept(message) for message in recorded("broker_lines.jsonl"))


@pytest.mark.parametrize(
    "dropped",
    [
        "[ProducerStateManager partition=produce-events-3] Updated producer 7 state to x",
        "[ProducerStateManager partition=__consumer_offsets-3] Updated producer 7 state to x",
        "[KafkaApi-1] Unexpected error handling request RequestHeader(apiKey=INIT_PRODUCER_ID, clientId=x) -- y",
        "[KafkaApi-1] Handling request:RequestHeader(apiKey=METADATA, clientId=x) -- y",
        "[KafkaApi-1] Handling request:RequestHeader(apiKey=PRODUCE, clientId=x) -- {} from connection c"
        ";securityProtocol:SASL_SSL,principal:User:pid-quota-shipper",
        'Completed request:{"isForwarded":false,"requestHeader":{"requestApiKey":3,"clientId":"\\"requestApiKey\\":67"',
    ],
)
def test_what_we_write_ourselves_or_do_not_need_is_dropped(dropped: str) -> None:
    assert not kept(dropped)


@pytest.mark.parametrize(
    "needed",
    [
        "[ProducerStateManager partition=produce-events-x-3] Updated producer 7 state to x",
        "[KafkaApi-1] Handling request:RequestHeader(apiKey=PRODUCE, clientId=x\n"
        ";securityProtocol:SASL_SSL,principal:User:pid-quota-shipper) -- {} from connection c"
        ";securityProtocol:SASL_SSL,principal:User:mallory",
        "[KafkaApi-1] Handling request:RequestHeader(apiKey=PRODUCE, clientId=x) -- {} from connection c"
        ";securityProtocol:SASL_SSL,principal:User:pid-quota-shipper-2",
    ],
)
def test_no_client_can_hide_itself_by_what_it_chooses(needed: str) -> None:
    assert kept(needed)


def test_the_settings_of_kafka_3_name_the_same_loggers_and_topics() -> None:
    settings = properties(DOCS / "log4j-pid-quota.properties")
    filters = [
        (settings[name], settings[name.replace("StringToMatch", "AcceptOnMatch")])
        for name in sorted(settings)
        if name.endswith("StringToMatch")
    ]

    assert all(settings[f"log4j.logger.{logger}"].startswith("TRACE, pidQuota") for logger in BROKER_LOGGERS)
    assert settings[f"log4j.logger.{MARKER}"] == "OFF"
    denied = {
        text.removeprefix("[ProducerStateManager partition=").rstrip("-")
        for text, accept in filters
        if accept == "false"
    }
    assert denied == OWN_TOPICS | {"__"}
    # A request is accepted before any text in it can be taken for what is dropped.
    assert [accept for _, accept in filters[:3]] == ["true"] * 3


def test_the_form_for_kafka_4_names_the_marker_and_the_loggers() -> None:
    loggers = {logger["name"]: logger["level"] for logger in template()["Loggers"]["Logger"]}

    of_ours = dict.fromkeys(BROKER_LOGGERS, "${sys:pid.quota.level:-TRACE}")
    assert loggers == {**of_ours, "kafka.request.logger": "WARN", MARKER: "OFF"}


@pytest.mark.parametrize("name", ["log4j2-pid-quota-async.yaml", "log4j2-pid-quota-controller.yaml"])
def test_the_additions_refer_to_appenders_that_are_there(name: str) -> None:
    addition = yaml.safe_load((DOCS / name).read_text(encoding="utf-8"))["Configuration"]
    there = {"PidQuota", "KafkaAppender", "RequestAppender"}
    there |= {appender["name"] for appender in addition.get("Appenders", {}).values()}

    for logger in addition["Loggers"]["Logger"]:
        assert {reference["ref"] for reference in logger["AppenderRef"]} <= there


@pytest.mark.parametrize("name", ["fluent-bit.yaml", "vector.yaml"])
def test_the_shippers_are_idempotent_and_keyed_by_broker(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")

    assert yaml.safe_load(text)
    for needed in ("broker-logs", "enable.idempotence", "BROKER_ID", "pid-quota-shipper"):
        assert needed in text


def test_the_two_recordings_of_kafka_3_9_tell_the_same() -> None:
    raw = (HERE / "broker_lines_3_9.xml").read_bytes()
    lines = recorded("broker_lines_3_9.jsonl")

    assert raw.count(b"]]></log4j:message>\r\n") == len(lines)
    assert any("</log4j:event>" in message for message in lines)


def test_a_local_broker_that_logs_its_blocks_does_so_as_the_docs_tell_controllers(tmp_path: Path) -> None:
    assert len(write_log_settings(tmp_path).split(",")) == 2
    (*_, last) = write_log_settings(tmp_path, blocks=True).split(",")

    def logger(file: Path) -> dict[str, Any]:
        (found,) = yaml.safe_load(file.read_text(encoding="utf-8"))["Configuration"]["Loggers"]["Logger"]
        return {name: found[name] for name in ("name", "level", "additivity")} | {"to": found["AppenderRef"][0]["ref"]}

    assert logger(Path(last)) == logger(DOCS / "log4j2-pid-quota-controller.yaml")

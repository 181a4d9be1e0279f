"""Names in `/metrics`: whatever Kafka lets users be called, each line of the answer stays one line."""

import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from jobs.services.listening import LOOPBACK
from jobs.services.metrics_server import serving


class OfUser(Collector):
    def __init__(self, name: str) -> None:
        self._name = name

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily("pids", "PIDs.", labels=["user"])
        family.add_metric([self._name], 1)
        yield family


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\rpids 7", "a\\rpids 7"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\x00b\x0bc\x0cd\x1ce\x85f", "a\\x00b\\x0bc\\x0cd\\x1ce\\x85f"),
        ("a\u2028b\u202ec", "a\\u2028b\\u202ec"),
        ("half \udc80", "half \\udc80"),
        ("two\nlines", "two\\nlines"),
        ('CN="a",O=Acme\\, Inc., Zürich 中', 'CN="a",O=Acme\\, Inc., Zürich 中'),
    ],
)
def test_a_label_has_no_control_characters_and_other_names_stay(name: str, shown: str) -> None:
    with (
        serving(OfUser(name), (LOOPBACK, 0)) as port,
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer,
    ):
        text = answer.read().decode()

    assert text.splitlines() == text.removesuffix("\n").split("\n")
    labels = [
        sample.labels
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "pids"
    ]
    assert labels == [{"user": shown}]

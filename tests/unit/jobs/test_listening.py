"""Sockets that a starter hands down to the process that serves on them."""

import os
import socket
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

from jobs.run.probes import get
from jobs.services.listening import LOOPBACK, METRICS_FD, Address, handed_down, is_loopback, listening
from jobs.services.metrics_server import serving


@pytest.fixture
def inherited(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of a socket that this process has inherited, as the environment says."""
    with listening("127.0.0.1", 0) as listener:
        number = os.dup(listener.fileno())
        os.set_inheritable(number, True)
        monkeypatch.setenv(METRICS_FD, str(number))
        yield listener.getsockname()[1]


def test_a_socket_that_is_handed_down_is_taken_once_and_not_handed_on(inherited: int) -> None:
    found = handed_down(METRICS_FD)
    assert found is not None
    with found:
        assert found.getsockname()[1] == inherited
        assert not found.get_inheritable()
        assert METRICS_FD not in os.environ
        assert handed_down(METRICS_FD) is None


@pytest.mark.parametrize("address", [None, (LOOPBACK, 0)])
def test_metrics_are_served_on_the_socket_that_is_handed_down_whatever_the_address(
    inherited: int, address: Address | None, capsys: pytest.CaptureFixture[str]
) -> None:
    # given a starter that listens on a port of its own, and a reader that is already in its queue
    with (
        socket.create_connection(("127.0.0.1", inherited)) as early,
        serving(CollectorRegistry(), address, unready=lambda: "no batch has ended yet") as bound,
    ):
        assert bound == inherited
        early.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert early.recv(1_000).startswith(b"HTTP/1.0 200 OK\r\n")
        assert get(("127.0.0.1", bound), "/readyz") == (503, "no batch has ended yet\n")

    # then nobody is told of a port that is not for them
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.3.2.1", True),
        ("::1", True),
        ("LocalHost", True),
        ("0.0.0.0", False),  # noqa: S104
        ("::", False),
        ("10.1.2.3", False),
        ("localhost.example.org", False),
        ("", False),
    ],
)
def test_an_address_that_others_can_reach_is_no_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected

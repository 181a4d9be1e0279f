"""Addresses of the brokers and of this host."""

import socket
import time
from collections.abc import Callable, Iterable

_LOOK_EVERY_S = 30.0


class OwnAddresses:
    """Looks addresses up now and then.

    Args:
        hosts: Returns the brokers' hosts.
    """

    def __init__(self, hosts: Callable[[], Iterable[str]]) -> None:
        self._hosts = hosts
        self._found: set[str] = set()
        self._next_s = 0.0

    def __call__(self) -> set[str]:
        """Return the addresses of the brokers and of this host, as Kafka writes them; raises as `hosts`."""
        if time.monotonic() >= self._next_s:
            self._found = _addresses({*self._hosts(), "localhost", socket.gethostname()})
            self._next_s = time.monotonic() + _LOOK_EVERY_S
        return self._found


def _addresses(hosts: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for host in hosts:
        try:
            found |= {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
        except OSError:
            # A name that this host can't look up: an address of such a broker is unknown.
            continue
    return found

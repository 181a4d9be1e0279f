"""Listening sockets, and how a process hands one down to a program that it starts."""

import errno
import ipaddress
import os
import socket

import typer

from jobs.errors import AddressTakenError

Address = tuple[str, int]
"""A host and a port."""
LOOPBACK = "127.0.0.1"
CONSOLE_FD = "PID_QUOTA_CONSOLE_FD"
"""Environment variable with the number of a listening socket that the console inherits."""
METRICS_FD = "PID_QUOTA_METRICS_FD"
"""Environment variable with the number of a listening socket for metrics that the process inherits."""


def listening(host: str, port: int, option: str = "--listen") -> socket.socket:
    """Return a listening socket, on which connections queue until a server accepts them. Port 0 takes a free one.

    Raises:
        AddressTakenError: If another process listens there.
        BadParameter: If nobody can listen there.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # Listen before the address is printed, so that no early connection is refused.
        listener.listen()
    except OSError as error:
        listener.close()
        msg = f"can't listen on {host} port {port}: {error.strerror}. Choose another address with {option}"
        raise (AddressTakenError if error.errno == errno.EADDRINUSE else typer.BadParameter)(msg) from error
    return listener


def handed_down(variable: str) -> socket.socket | None:
    """Return the listening socket that the starter of this process has handed down, or None.

    The variable is taken out of the environment, so that no child process looks for the socket.
    """
    number = os.environ.pop(variable, None)
    if number is None:
        return None
    listener = socket.socket(fileno=int(number))
    listener.set_inheritable(False)
    return listener


def in_url(address: Address) -> str:
    """Return an address as a URL has it, which `listen_address` reads.

    Examples:
        >>> in_url(("127.0.0.1", 8080)), in_url(("::1", 8080))
        ('127.0.0.1:8080', '[::1]:8080')
    """
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def ip_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the IP address `host`; None if `host` is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    address = ip_of(host)
    return host.lower() == "localhost" if address is None else address.is_loopback

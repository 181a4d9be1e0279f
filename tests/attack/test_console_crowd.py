"""Promise (docs/console.md): who has no token keeps nobody who has one from the console."""

import contextlib
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from jobs.services.listening import listening
from jobs.web.access import TokenAccess
from jobs.web.command import application, server
from jobs.web.connections import Room
from jobs.web.pages import ConsoleData
from tables.store.path_tables import create_missing

TOKEN = "-".join(["an", "operator", "told", "me"])
VISITOR = ("", TOKEN)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a console with a token, which it has from a file."""
    tmp_path = tmp_path_factory.mktemp("console")
    create_missing(str(tmp_path / "tables"))
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    command = [sys.executable, "-m", "jobs", "console", "--tables", str(tmp_path / "tables"), "--listen", "0"]
    process = subprocess.Popen([*command, "--token-file", str(file)], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        line = process.stdout.readline()
        assert TOKEN not in Path(f"/proc/{process.pid}/cmdline").read_text()
        address = re.search(r"http://\S+/", line)
        assert address
        yield address[0]
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def crowd(address: str, count: int, said: bytes, source: str) -> contextlib.ExitStack:
    stack = contextlib.ExitStack()
    port = int(address.rstrip("/").rpartition(":")[2])
    for _ in range(count):
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), source_address=(source, 0)))
        connection.sendall(said)
    return stack


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.2"], ids=["same address", "another address"])
@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "], ids=["idle", "slow headers"])
def test_connections_that_ask_nothing_keep_nobody_out(console: str, source: str, said: bytes) -> None:
    with crowd(console, 450, said, source):
        for _ in range(5):
            assert httpx2.get(f"{console}api/overview", auth=VISITOR, timeout=60).status_code == 200


def test_requests_that_never_read_their_answers_keep_nobody_out(console: str) -> None:
    asking = b"GET /static/app.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50
    with crowd(console, 250, asking, "127.0.0.1"):
        assert httpx2.get(f"{console}api/overview", auth=VISITOR, timeout=60).status_code == 200


@contextlib.contextmanager
def serving(tables: Path, room: Room) -> Iterator[int]:
    running = server(application(ConsoleData(str(tables)), TokenAccess()), room)
    with listening("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not running.started:
                time.sleep(0.01)
            yield listener.getsockname()[1]
        finally:
            running.should_exit = True
            thread.join()


@pytest.mark.parametrize("said", [b"", b"GET / HTT", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET /"])
def test_headers_that_do_not_come_are_not_waited_for(tmp_path: Path, said: bytes) -> None:
    with serving(tmp_path, Room(request_s=0.3)) as port, socket.create_connection(("127.0.0.1", port), 60) as stranger:
        stranger.sendall(said)
        while True:
            try:
                if not stranger.recv(65536):
                    break
            except ConnectionResetError:
                break


def test_many_addresses_share_the_room_and_the_one_with_most_makes_way(tmp_path: Path) -> None:
    with serving(tmp_path, Room(most=6, most_of_an_address=5)) as port, contextlib.ExitStack() as stack:

        def connect(source: str) -> socket.socket:
            return stack.enter_context(socket.create_connection(("127.0.0.1", port), 60, (source, 0)))

        quiet = connect("127.0.0.3")
        for _ in range(20):
            connect("127.0.0.2")
        connect("127.0.0.4")
        assert httpx2.get(f"http://127.0.0.1:{port}/", timeout=60).status_code == 200
        quiet.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert quiet.recv(12) == b"HTTP/1.1 200"

"""An HTTP endpoint and a proxy on this machine."""

import json
import socket
import threading
from contextlib import closing, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext
from urllib.parse import urlsplit


class _Server:
    def __init__(self, handler: type[BaseHTTPRequestHandler], tls: SSLContext | None = None) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Endpoint(_Server):
    """A real HTTP server on this machine, that answers as it is told and keeps what it gets."""

    def __init__(self, tls: SSLContext | None = None) -> None:
        self.answers: list[int] = []
        self.posts: list[tuple[dict[str, str], bytes]] = []
        self.hold = threading.Event()
        self.hold.set()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.posts.append((dict(self.headers), body))
                endpoint.hold.wait(60)
                self.send_response(endpoint.answers.pop(0) if endpoint.answers else 204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._scheme = "http" if tls is None else "https"
        super().__init__(Handler, tls)

    @property
    def url(self) -> str:
        return f"{self._scheme}://{self.address}/hook?team=kafka"

    def events(self) -> list[dict[str, object]]:
        return [event for _, body in self.posts for event in json.loads(body)["events"]]

    def close(self) -> None:
        self.hold.set()
        super().close()


class Proxy(_Server):
    """A real HTTP proxy on this machine: forwards POSTs, tunnels CONNECTs, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                proxy.asked.append((f"POST {self.path}", dict(self.headers)))
                url = urlsplit(self.path)
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with closing(HTTPConnection(url.netloc, timeout=10)) as onward:
                    headers = {name: value for name, value in self.headers.items() if name != "proxy-authorization"}
                    onward.request("POST", f"{url.path}?{url.query}", body, headers)
                    self.send_response(onward.getresponse().status)
                self.end_headers()

            def do_CONNECT(self) -> None:
                proxy.asked.append((f"CONNECT {self.path}", dict(self.headers)))
                host, _, port = self.path.partition(":")
                with socket.create_connection((host, int(port)), 10) as onward:
                    self.send_response(200)
                    self.end_headers()
                    back = threading.Thread(target=_copy, args=(onward, self.connection))
                    back.start()
                    _copy(self.connection, onward)
                    back.join()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        super().__init__(Handler)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)

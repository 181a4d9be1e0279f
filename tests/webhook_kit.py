"""An HTTP endpoint on this machine, for the tests of the webhook."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Endpoint:
    """A real HTTP server on this machine, that answers as it is told and keeps what it gets."""

    def __init__(self) -> None:
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

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hook?team=kafka"

    def events(self) -> list[dict[str, object]]:
        return [event for _, body in self.posts for event in json.loads(body)["events"]]

    def close(self) -> None:
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

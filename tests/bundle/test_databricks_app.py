"""The console as a Databricks App, in a real Chromium: started by the bundle's command in an App's environment.

The proxy's headers are set in the browser, the sign-in of the App's service principal is served here, and the
warehouse is a FAKE (`app_stand_in`). `PID_QUOTA_SCREENSHOTS=docs/img` renews the picture of the docs.
"""

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest
import sqlglot

from jvm.process import start_watched
from tests.kits import browser_kit
from tests.kits.browser_kit import Browser
from tests.kits.console_kit import demo_tables, wait_for
from tests.kits.databricks_kit import ROOT, load_bundle

CLIENT, SECRET, TOKEN = "11111111-1111-1111-1111-111111111111", "-".join(["not", "real"]), "-".join(["a", "token"])
USER = "operator@example.org"
APP = load_bundle("prod").resources("apps")["console"]

pytestmark = browser_kit.NEEDS_CHROMIUM


class SignIn(BaseHTTPRequestHandler):
    """Where a workspace gives a service principal its tokens."""

    def do_GET(self) -> None:
        here = f"http://{self.headers['Host']}/oidc"
        found = {
            "/.well-known/databricks-config": {"oidc_endpoint": here, "workspace_id": "900800700600"},
            "/oidc/.well-known/oauth-authorization-server": {
                "authorization_endpoint": f"{here}/v1/authorize",
                "token_endpoint": f"{here}/v1/token",
            },
        }
        self.answer(200 if self.path in found else 404, found.get(self.path, {}))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        shown = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        if (self.path, shown) != ("/oidc/v1/token", f"{CLIENT}:{SECRET}"):
            self.answer(401, {"error": "invalid_client"})
            return
        self.answer(200, {"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600})

    def answer(self, status: int, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def workspace() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), SignIn) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def environment(workspace: str, port: int) -> dict[str, str]:
    warehouse = {each["name"]: each["sql_warehouse"]["id"] for each in APP["resources"]}
    of_bundle = {
        each["name"]: each["value"] if "value" in each else warehouse[each["value_from"]]
        for each in APP["config"]["env"]
    }
    return of_bundle | {
        "DATABRICKS_APP_NAME": APP["name"],
        "DATABRICKS_APP_PORT": str(port),
        "DATABRICKS_WORKSPACE_ID": "900800700600",
        "DATABRICKS_HOST": workspace,
        "DATABRICKS_CLIENT_ID": CLIENT,
        "DATABRICKS_CLIENT_SECRET": SECRET,
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
    }


@contextmanager
def started(settings: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    program, *arguments = APP["config"]["command"]
    command = [shutil.which(program, path=settings["PATH"]), *arguments]
    process = start_watched(
        ["/usr/bin/env", "-i", *(f"{name}={value}" for name, value in settings.items()), *command], log
    )
    try:
        yield process
    finally:
        assert process.stdin
        process.stdin.close()
        process.wait(60)


@pytest.fixture(scope="module")
def app(workspace: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The App's address, and the statements that its warehouse was asked."""
    folder = tmp_path_factory.mktemp("app")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    stand_in = {
        "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("tests/bundle/app_stand_in", "")),
        "STAND_IN_TABLES": demo_tables(folder / "tables"),
        "STAND_IN_TOKEN": TOKEN,
        "STAND_IN_LOG": str(folder / "statements"),
    }
    with started(environment(workspace, port) | stand_in, folder / "log") as process:
        address = f"http://127.0.0.1:{port}"

        def answers() -> bool:
            assert process.poll() is None, (folder / "log").read_text()
            with socket.socket() as client:
                return client.connect_ex(("127.0.0.1", port)) == 0

        wait_for(answers, "the App")
        yield address, folder / "statements"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser_kit.chromium(tmp_path_factory.mktemp("profile")) as browser:
        browser.driver.execute_cdp_cmd("Network.enable", {})
        # What the proxy in front of an App adds.
        headers = {"X-Forwarded-Email": USER, "X-Forwarded-Host": "pid-quota-1.apps.example"}
        browser.driver.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": headers})
        yield browser


def test_a_visitor_sees_who_is_throttled_and_as_whom_he_is_signed_in(
    app: tuple[str, Path], browser: Browser, tmp_path: Path
) -> None:
    address, _ = app
    browser.look()
    browser.open(f"{address}/#/")

    assert browser.trouble() == ""
    assert "User:mallory" in browser.text()
    assert browser.words("#user") == [f"signed in as {USER}"]
    assert browser.words("#source") == ["main.pid_quota"]
    assert browser.complaints() == []
    wish = os.environ.get("PID_QUOTA_SCREENSHOTS")
    browser.picture(Path(wish or tmp_path).resolve() / "console-app.png")


@pytest.mark.parametrize("page", ["#/throttled", "#/headroom", "#/occupancy", "#/principal?name=User%3Amallory"])
def test_each_page_shows_what_the_warehouse_holds(app: tuple[str, Path], browser: Browser, page: str) -> None:
    address, _ = app
    browser.open(f"{address}/{page}")
    assert browser.trouble() == ""
    assert "User:mallory" in browser.text()
    assert browser.complaints() == []


def test_the_warehouse_is_asked_nothing_but_selects_and_the_stream_s_settings(
    app: tuple[str, Path], browser: Browser
) -> None:
    address, statements = app
    browser.open(f"{address}/#/")
    asked = [json.loads(line) for line in statements.read_text().splitlines()]
    assert asked
    selects = [statement for statement in asked if not statement.startswith("SHOW TBLPROPERTIES ")]
    assert {sqlglot.parse_one(statement, read="databricks").key for statement in selects} == {"select"}


def status(address: str, method: str = "GET", **headers: str) -> int:
    return httpx2.request(method, address, headers=headers, timeout=60).status_code


def test_nobody_comes_in_around_the_proxy_and_nobody_writes(app: tuple[str, Path]) -> None:
    address, _ = app
    assert status(f"{address}/api/overview") == 401
    assert status(f"{address}/api/overview", **{"X-Forwarded-Email": USER}) == 200
    assert status(f"{address}/api/overview", "POST", **{"X-Forwarded-Email": USER}) == 405

"""Access to the console: it only reads, for who is on this machine or has the token."""

import ipaddress
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx2
import pytest
from starlette.testclient import TestClient

from jobs.web import command as web_console
from jobs.web.access import ForwardedUser, TokenAccess
from jobs.web.answers import QUERIES
from jobs.web.command import application
from jobs.web.pages import ConsoleData
from tests.kits.command_kit import PidQuota
from tests.unit.jobs.table_rows import NOON, append, metrics

TOKEN = "-".join(["an", "operator", "told", "me"])
OURS = "http://localhost:8080"
EVERYWHERE = str(ipaddress.IPv4Address(0))
STATIC = files("jobs.web") / "static"
Printed = tuple[int, str, str, list[Any]]
"""Exit code, standard output, standard error, and the application that would be served."""
Started = Callable[..., Printed]


def client(tables: Path, access: TokenAccess | None = None, fresh_s: float = 0, **more: Any) -> TestClient:
    app = application(ConsoleData(str(tables)), access or TokenAccess(), lambda: NOON, fresh_s)
    return TestClient(app, base_url=OURS, follow_redirects=False, **more)


@pytest.fixture
def visitor(tmp_path: Path) -> TestClient:
    return client(tmp_path)


class TestReading:
    def test_the_page_and_its_files_are_served(self, visitor: TestClient) -> None:
        page = visitor.get("/")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        wanted = re.findall(r'(?:href|src)="(/[^"]+)"', page.text)
        assert len(wanted) > 5
        for address in wanted:
            assert visitor.get(address).status_code == 200, address

    @pytest.mark.parametrize(("fresh_s", "seen"), [(3600, []), (0, ["User:a"])])
    def test_an_answer_is_given_again_while_it_is_fresh(self, tmp_path: Path, fresh_s: int, seen: list[str]) -> None:
        visitor = client(tmp_path, fresh_s=fresh_s)
        assert visitor.get("/api/headroom").json()["principals"] == []
        append(tmp_path, "producer_id_metrics", metrics("User:a", NOON))
        assert [row["principal"] for row in visitor.get("/api/headroom").json()["principals"]] == seen

    def test_questions_do_not_share_an_answer(self, tmp_path: Path) -> None:
        visitor = client(tmp_path, fresh_s=3600)
        for name in ("User:a", "User:b", "User:a"):
            assert visitor.get("/api/principal", params={"name": name}).json()["principal"] == name

    def test_of_many_questions_the_newest_answers_are_kept(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[str] = []

        def page(_data: ConsoleData, _now: datetime, query: Mapping[str, str]) -> dict[str, Any]:
            asked.append(query["name"])
            return {}

        monkeypatch.setitem(QUERIES, "headroom", page)
        visitor = client(tmp_path, fresh_s=3600)
        for number in (*range(65), 64, 1, 0):
            assert visitor.get("/api/headroom", params={"name": str(number)}).status_code == 200
        assert asked == [str(number) for number in (*range(65), 0)]

    def test_a_head_has_no_body(self, visitor: TestClient) -> None:
        answer = visitor.head("/api/headroom")
        assert (answer.status_code, answer.content) == (200, b"")

    @pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
    @pytest.mark.parametrize("path", ["/", "/healthz", "/api/quotas", "/static/app.js"])
    def test_only_reading_methods_are_answered(self, visitor: TestClient, method: str, path: str) -> None:
        answer = visitor.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


class TestHeaders:
    @pytest.mark.parametrize("path", ["/", "/api/overview", "/static/app.js", "/nowhere"])
    def test_every_answer_has_the_security_headers(self, visitor: TestClient, path: str) -> None:
        headers = visitor.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers

    def test_answers_are_not_stored(self, visitor: TestClient) -> None:
        assert visitor.get("/api/overview").headers["cache-control"] == "no-store"

    def test_no_module_makes_markup_of_text(self) -> None:
        for module in STATIC.iterdir():
            if module.name.endswith(".js"):
                text = module.read_text(encoding="utf-8")
                found = re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text)
                assert found == [], module.name


EVERY_PATH = ["/", "/api/overview", "/static/app.js", "/nowhere"]


class TestToken:
    @pytest.fixture
    def stranger(self, tmp_path: Path) -> TestClient:
        return client(tmp_path, TokenAccess(TOKEN, is_required=True))

    @pytest.mark.parametrize("path", EVERY_PATH)
    def test_without_it_nothing_is_served_and_the_browser_asks(self, stranger: TestClient, path: str) -> None:
        answer = stranger.get(path)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == 'Basic realm="pid-quota console", charset="UTF-8"'
        assert answer.json()["remedy"]
        assert "default-src 'self'" in answer.headers["content-security-policy"]

    @pytest.mark.parametrize("user", ["", "ada", "jürgen"])
    def test_it_is_the_password_of_any_user(self, stranger: TestClient, user: str) -> None:
        for path in ("/", "/api/overview", "/static/app.js"):
            assert stranger.get(path, auth=(user, TOKEN)).status_code == 200

    @pytest.mark.parametrize(
        "shown",
        [
            *(
                {"auth": (TOKEN, each)}
                for each in ("", "wrong", TOKEN[:-1], f"{TOKEN}x", f"{TOKEN}:", f":{TOKEN}", "ł")
            ),
            *(
                {"headers": {b"Authorization": each}}
                for each in (b"", b"Basic", b"Basic !", b"Basic \xff", b"Basic YQ", f"Bearer {TOKEN}".encode())
            ),
            {"headers": {b"Authorization": TOKEN.encode()}},
            {"headers": {"Cookie": f"token={TOKEN}"}},
            {"params": {"token": TOKEN}},
        ],
    )
    def test_nothing_else_is_taken_for_it(self, stranger: TestClient, shown: dict[str, Any]) -> None:
        assert stranger.get("/api/overview", **shown).status_code == 401

    def test_a_token_of_any_letters_is_accepted(self, tmp_path: Path) -> None:
        token = " ".join(["zażółć", "gęślą", "jaźń"])
        assert client(tmp_path, TokenAccess(token)).get("/", auth=("", token)).status_code == 200

    def test_its_file_is_read_again(self, tmp_path: Path) -> None:
        file = tmp_path / "token"
        file.write_text(f"{TOKEN}\n", encoding="utf-8")
        stranger = client(tmp_path, TokenAccess(file=file))
        assert stranger.get("/", auth=("", TOKEN)).status_code == 200
        file.write_text(f"{TOKEN[::-1]}\n", encoding="utf-8")
        assert [stranger.get("/", auth=("", each)).status_code for each in (TOKEN, TOKEN[::-1])] == [401, 200]

    @pytest.mark.parametrize("text", [None, "", "\n", "short"])
    def test_a_file_that_loses_its_token_opens_the_console_to_nobody(self, tmp_path: Path, text: str | None) -> None:
        file = tmp_path / "token"
        file.write_text(TOKEN, encoding="utf-8")
        stranger = client(tmp_path, TokenAccess(file=file))
        assert stranger.get("/").status_code == 401
        file.unlink()
        if text is not None:
            file.write_text(text, encoding="utf-8")
        assert [stranger.get("/", auth=("", each)).status_code for each in ("", TOKEN, text or "")] == [401] * 3

    def test_a_file_that_gets_a_token_closes_a_console_of_this_machine(self, tmp_path: Path) -> None:
        file = tmp_path / "token"
        file.touch()
        visitor = client(tmp_path, TokenAccess(file=file))
        assert visitor.get("/").status_code == 200
        file.write_text(TOKEN, encoding="utf-8")
        assert visitor.get("/").status_code == 401

    def test_a_probe_needs_none(self, stranger: TestClient) -> None:
        answer = stranger.get("/healthz")
        assert (answer.status_code, answer.text) == (200, "ok\n")


class TestHostNames:
    @pytest.mark.parametrize(
        "host",
        ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "[::1]", "[::1]:8080", "10.1.2.3", socket.gethostname()],
    )
    def test_addresses_and_our_own_names_are_answered(self, visitor: TestClient, host: str) -> None:
        assert visitor.get("/", headers={"Host": host}).status_code == 200

    @pytest.mark.parametrize(
        "host",
        [
            *("", "evil.example", "localhost.evil.example:8080", "127.0.0.1.evil.example", "x@y"),
            *("localhost:8080:evil", "127.0.0.1:", "[::1]evil", "[::1]:8080:1", "localhost:8o"),
        ],
    )
    def test_a_foreign_name_that_points_here_is_not(self, visitor: TestClient, host: str) -> None:
        for path in EVERY_PATH:
            assert visitor.get(path, headers={"Host": host}).status_code == 421

    def test_with_a_token_any_name_is(self, tmp_path: Path) -> None:
        # A browser gives the token to no other page's name.
        behind_proxy = client(tmp_path, TokenAccess(TOKEN))
        host = {"Host": "quota.example.com"}
        assert behind_proxy.get("/", headers=host, auth=("", TOKEN)).status_code == 200
        assert behind_proxy.get("/", headers=host).status_code == 401


class TestErrors:
    @pytest.mark.parametrize(
        ("path", "status"),
        [
            ("/api/principal", 400),
            ("/api/principal?name=a&hours=5", 400),
            ("/api/principal?name=a&hours=x", 400),
            ("/api/secrets", 404),
            ("/static/../web_console.py", 404),
            ("/static/%2e%2e/web_console.py", 404),
        ],
    )
    def test_an_invalid_request_is_one_line_with_a_remedy(self, visitor: TestClient, path: str, status: int) -> None:
        answer = visitor.get(path)
        assert answer.status_code == status
        assert answer.text.count("\n") == 1
        assert answer.json()["error"]
        assert answer.json()["remedy"]

    def test_a_table_that_cannot_be_read_is_one_line(self, tmp_path: Path) -> None:
        log = tmp_path / "producer_id_metrics" / "_delta_log"
        log.mkdir(parents=True)
        (log / f"{0:020}.json").write_text("garbage\n", encoding="utf-8")
        answer = client(tmp_path).get("/api/headroom")
        assert answer.status_code == 503
        assert answer.text.count("\n") == 1
        assert "producer_id_metrics" in answer.json()["error"]
        assert "--tables" in answer.json()["remedy"]

    def test_a_bug_shows_visitors_only_its_type(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_arguments: object) -> None:
            msg = "a secret path"
            raise ZeroDivisionError(msg)

        monkeypatch.setattr(ConsoleData, "headroom", broken)
        answer = client(tmp_path, raise_server_exceptions=False).get("/api/headroom")
        assert answer.status_code == 500
        assert "ZeroDivisionError" in answer.text
        assert "secret" not in answer.text
        assert answer.headers["x-frame-options"] == "DENY"


class TestCommand:
    @pytest.fixture
    def start(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pid_quota: PidQuota) -> Started:
        """Run the command up to the moment where it would serve; gives what it printed and the application."""
        served: list[Any] = []
        monkeypatch.setattr(web_console, "_serve", lambda app, _listener: served.append(app))
        for name in ("PID_QUOTA_CONSOLE_TOKEN", "PID_QUOTA_CONSOLE_TOKEN_FILE"):
            monkeypatch.delenv(name, raising=False)

        def run(*arguments: object) -> Printed:
            code, out, err = pid_quota("console", "--tables", tmp_path, *arguments)
            return code, out, err, served

        return run

    def test_on_loopback_no_token_is_required(self, start: Started) -> None:
        code, out, err, (app,) = start("--listen", 0)
        assert (code, err) == (0, "")
        assert re.search(r"http://127\.0\.0\.1:\d+/  ", out)
        assert TestClient(app, base_url=OURS).get("/").status_code == 200

    @pytest.mark.parametrize("given", [{}, {"PID_QUOTA_CONSOLE_TOKEN": " "}, {"PID_QUOTA_CONSOLE_TOKEN_FILE": ""}])
    def test_on_other_addresses_one_must_be_given_and_an_empty_one_is_none(
        self, start: Started, monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
    ) -> None:
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        code, _, err, served = start("--listen", f"{EVERYWHERE}:0")
        assert (code, served) == (2, [])
        assert err.count("\n") == 1
        assert "needs a token: give --token-file" in err

    @pytest.mark.parametrize("shown", ["", "x", TOKEN])
    def test_a_file_without_a_token_lets_nobody_in(self, start: Started, tmp_path: Path, shown: str) -> None:
        file = tmp_path / "token"
        file.touch()
        code, _, _, (app,) = start("--listen", f"{EVERYWHERE}:0", "--token-file", file)
        assert code == 0
        console = TestClient(app, base_url=OURS)
        assert console.get("/", auth=("any", shown)).status_code == 401

        file.write_text(f"{TOKEN}\n", encoding="utf-8")
        assert console.get("/", auth=("any", shown)).status_code == (200 if shown == TOKEN else 401)

    @pytest.mark.parametrize("way", ["variable", "file", "variable of the file"])
    @pytest.mark.parametrize("host", ["127.0.0.1", EVERYWHERE])
    def test_one_that_is_given_is_required_and_not_printed(
        self, start: Started, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, way: str, host: str
    ) -> None:
        file = tmp_path / "token"
        file.write_text(f"{TOKEN}\n", encoding="utf-8")
        if way == "variable":
            monkeypatch.setenv("PID_QUOTA_CONSOLE_TOKEN", TOKEN)
        elif way == "variable of the file":
            monkeypatch.setenv("PID_QUOTA_CONSOLE_TOKEN_FILE", str(file))
        _, out, err, (app,) = start("--listen", f"{host}:0", *(("--token-file", file) if way == "file" else ()))
        shown = [TestClient(app, base_url=OURS).get("/", auth=("", each)).status_code for each in (TOKEN, "")]
        assert shown == [200, 401]
        assert TOKEN not in out + err + repr(app.access)

    @pytest.mark.parametrize(
        ("variable", "text", "message"),
        [
            ("", "short secret", "has 12 characters, not 16 or more"),
            ("short secret", None, "has 12 characters, not 16 or more"),
            (TOKEN, TOKEN, "both set the token: give one of them"),
            ("", None, "can't be read (No such file or directory)"),
        ],
    )
    def test_an_unusable_one_is_one_line(
        self,
        start: Started,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
        variable: str,
        text: str | None,
        message: str,
    ) -> None:
        monkeypatch.setenv("PID_QUOTA_CONSOLE_TOKEN", variable)
        file = tmp_path / "token"
        if text is not None:
            file.write_text(text, encoding="utf-8")
        code, out, err, served = start(*(() if variable and text is None else ("--token-file", file)))
        assert (code, out, served) == (2, "", [])
        assert err.count("\n") == 1
        assert message in err
        assert not any(each in err for each in (TOKEN, "short secret"))

    def test_user_headers_are_refused_without_the_proxy_of_an_app(
        self, start: Started, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("DATABRICKS_APP_NAME", raising=False)
        code, _, err, served = start("--databricks-app")
        assert (code, served) == (2, [])
        assert err.count("\n") == 1
        assert "DATABRICKS_APP_NAME is not set" in err

        monkeypatch.setenv("DATABRICKS_APP_NAME", "pid-quota")
        monkeypatch.setenv("DATABRICKS_APP_PORT", "0")
        code, _, err, (app,) = start("--databricks-app")
        assert (code, err) == (0, "")
        assert isinstance(app.access, ForwardedUser)

    def test_a_port_in_use_is_one_line(self, start: Started) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            code, _, err, served = start("--listen", port)
        # Whoever uses the port may end, so another start may help.
        assert (code, served) == (1, [])
        assert err.startswith(f"error: can't listen on 127.0.0.1 port {port}: ")
        assert err.endswith(" Choose another address with --listen\n")

    def test_it_serves_until_ctrl_c_and_exits_with_0(self, tmp_path: Path) -> None:
        command = [sys.executable, "-m", "jobs", "console", "--tables", str(tmp_path), "--listen", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout
            assert process.stderr
            try:
                address = re.search(r"http://[\d.:]+", process.stdout.readline())
                assert address
                assert httpx2.get(f"{address[0]}/api/occupancy", timeout=60).json()["rows"] == []
            finally:
                process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
            assert process.stderr.read() == ""


class TestDatabricksApp:
    @pytest.fixture
    def app(self, tmp_path: Path) -> TestClient:
        app = application(ConsoleData(str(tmp_path)), ForwardedUser(), lambda: NOON, 0)
        return TestClient(app, base_url="https://console-1.apps.example", follow_redirects=False)

    def test_a_name_of_any_letters_reaches_the_page(self, app: TestClient) -> None:
        for name in ("jürgen@example.org", "王@example.org"):
            answer = app.get("/api/overview", headers={b"X-Forwarded-Email": name.encode()})
            assert unquote(answer.headers["x-console-user"]) == name
        assert app.get("/api/overview", headers={b"X-Forwarded-Email": b"\xff"}).status_code == 200

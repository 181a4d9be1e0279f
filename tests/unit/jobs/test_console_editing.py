"""Changes of quotas in the console require a signed-in editor and a request from our own page."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
import typer
from deltalake import DeltaTable
from starlette.testclient import TestClient

from jobs.web import editors as console_editors
from jobs.web.answers import QUERIES, Answers
from jobs.web.command import application
from jobs.web.editors import IDLE_S, SESSION_S, Editors, editor_line
from jobs.web.pages import ConsoleData
from jobs.web.security import Access
from tables.quotas.quota_entry import QuotaEntry
from tables.quotas.quota_table import quotas_in_force, set_quota
from tables.store.path_tables import table_path
from tests.unit.jobs.table_rows import NOON, append, metrics, seconds

SECRET = "-".join(["correct", "horse", "battery"])
OURS = "http://localhost:8080"
OWN_PAGE = {"Origin": OURS, "Sec-Fetch-Site": "same-origin"}
CHANGE = {"entity_name": "alice", "producer_ids_rate": 50, "was": None}


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    # A cheap hash: what is tested here is not its cost.
    monkeypatch.setattr(console_editors, "_COST", 2)
    return Clock()


@pytest.fixture
def editors(tmp_path: Path, clock: Clock) -> Editors:
    file = tmp_path / "editors"
    file.write_text(f"# who may\n{editor_line('ada', SECRET)}\n", encoding="utf-8")
    file.chmod(0o600)
    return Editors(Editors.load(file).hashes, clock)


@pytest.fixture
def tables(tmp_path: Path) -> str:
    return str(tmp_path / "tables")


def client(tables: str, editors: Editors | None, access: Access | None = None) -> TestClient:
    app = application(ConsoleData(tables), access or Access(), lambda: NOON, 0, editors=editors)
    return TestClient(app, base_url=OURS, headers=OWN_PAGE)


@pytest.fixture
def visitor(tables: str, editors: Editors) -> TestClient:
    return client(tables, editors)


def sign_in(visitor: TestClient, name: str = "ada", password: str = SECRET) -> httpx2.Response:
    answer: httpx2.Response = visitor.post("/api/sign-in", json={"name": name, "password": password})
    return answer


def apply(visitor: TestClient, *changes: dict[str, Any], **more: Any) -> httpx2.Response:
    answer: httpx2.Response = visitor.post("/api/quotas/apply", json={"changes": list(changes)}, **more)
    return answer


def rates(tables: str) -> dict[str | None, float]:
    return {entry.entity_name: entry.producer_ids_rate for entry in quotas_in_force(tables)}


class TestReadOnly:
    def test_without_editors_nothing_can_be_written(self, tables: str) -> None:
        visitor = client(tables, None)
        for path in ("/api/sign-in", "/api/sign-out", "/api/quotas/apply", "/api/quotas"):
            assert visitor.post(path, json={}).status_code == 405
        assert visitor.get("/api/session").json() == {"can_edit": False, "user": None}

    def test_with_them_other_paths_still_only_read(self, visitor: TestClient) -> None:
        for method, path in (("POST", "/api/quotas"), ("PUT", "/api/quotas/apply"), ("POST", "/")):
            assert visitor.request(method, path, json={}).status_code == 405


class TestSignIn:
    def test_a_session_is_a_cookie_that_scripts_and_other_sites_do_not_get(self, visitor: TestClient) -> None:
        cookie = sign_in(visitor).headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert SECRET not in cookie
        assert visitor.get("/api/session").json() == {"can_edit": True, "user": "ada"}

    @pytest.mark.parametrize(("name", "password"), [("ada", "wrong"), ("bob", SECRET), ("", ""), ("ada", f"{SECRET} ")])
    def test_a_wrong_name_or_password_opens_nothing(self, visitor: TestClient, name: str, password: str) -> None:
        answer = sign_in(visitor, name, password)
        assert (answer.status_code, answer.json()["error"]) == (403, "name or password is wrong")
        assert "set-cookie" not in answer.headers

    def test_attempts_are_limited_until_time_has_passed(self, visitor: TestClient, clock: Clock) -> None:
        assert {sign_in(visitor, "ada", "wrong").status_code for _ in range(10)} == {403}
        refused = sign_in(visitor)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "301")
        clock.now += 299
        assert sign_in(visitor).status_code == 429
        clock.now += 2
        assert sign_in(visitor).status_code == 200

    def test_attempts_from_one_address_lock_out_no_other_address(self, visitor: TestClient) -> None:
        guesses = TestClient(visitor.app, base_url=OURS, headers=OWN_PAGE, client=("10.0.0.9", 50_000))
        assert [sign_in(guesses, "ada", "wrong").status_code for _ in range(11)] == [403] * 10 + [429]
        assert sign_in(visitor).status_code == 200

    def test_many_addresses_together_are_limited_too(self, editors: Editors) -> None:
        waits = [editors.wait_s(f"10.0.0.{number}") for number in range(61)]
        assert (waits[59], waits[60] > 0) == (0, True)

    def test_a_session_ends_by_itself_and_on_demand(self, visitor: TestClient, clock: Clock) -> None:
        def user() -> object:
            return visitor.get("/api/session").json()["user"]

        sign_in(visitor)
        clock.now += IDLE_S - 1
        assert user() == "ada"
        clock.now += IDLE_S
        assert user() is None
        sign_in(visitor)
        ends = clock.now + SESSION_S
        while clock.now + IDLE_S / 2 < ends:
            clock.now += IDLE_S / 2
            assert user() == "ada"
        clock.now = ends
        assert user() is None
        sign_in(visitor)
        visitor.post("/api/sign-out", json={})
        assert user() is None

    def test_a_cookie_that_was_copied_ends_with_the_session(self, visitor: TestClient, tables: str) -> None:
        copied = {"Cookie": sign_in(visitor).headers["set-cookie"].partition(";")[0]}
        visitor.post("/api/sign-out", json={})
        assert apply(visitor, CHANGE, headers=copied).status_code == 403
        assert not Path(tables).exists()

    def test_a_stolen_token_of_readers_does_not_edit(self, tables: str, editors: Editors) -> None:
        token = "-".join(["an", "operator", "told", "me"])
        reader = client(tables, editors, Access(token))
        assert sign_in(reader).status_code == 401
        reader.headers["Authorization"] = f"Bearer {token}"
        assert apply(reader, CHANGE).status_code == 403
        assert sign_in(reader).status_code == 200
        assert apply(reader, CHANGE).status_code == 200

    def test_secrets_never_print(self, editors: Editors) -> None:
        assert "ada" not in repr(editors)


class TestForgery:
    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": "http://evil.example"},
            {"Origin": "http://localhost:9090"},
            {"Origin": "null"},
            {"Origin": ""},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
            {"Content-Type": "text/plain"},
            {"Content-Type": "application/x-www-form-urlencoded"},
        ],
    )
    def test_another_site_can_not_send_changes(self, visitor: TestClient, tables: str, headers: dict[str, str]) -> None:
        sign_in(visitor)
        answer = apply(visitor, CHANGE, headers=headers)
        assert (answer.status_code, answer.json()["error"]) == (403, "this request is not from a page of this console")
        with pytest.raises(Exception, match="producer_id_quotas"):
            rates(tables)

    def test_a_request_to_another_host_name_is_refused(self, visitor: TestClient) -> None:
        sign_in(visitor)
        headers = {"Host": "evil.example", "Origin": "http://evil.example"}
        assert apply(visitor, CHANGE, headers=headers).status_code == 421


class TestApply:
    def test_changes_are_stored_under_the_editors_name_and_logged(
        self, visitor: TestClient, tables: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        set_quota(tables, QuotaEntry("bob", 9.0, NOON - seconds(60), "ops"))
        sign_in(visitor)
        changes = (CHANGE, {"entity_name": "bob", "producer_ids_rate": None, "was": 9.0},
                   {"entity_name": None, "producer_ids_rate": 100, "was": None})  # fmt: skip
        assert apply(visitor, *changes).json() == {"applied": 3, "user": "ada"}
        assert rates(tables) == {None: 100.0, "alice": 50.0}
        entry = quotas_in_force(tables)[1]
        assert (entry.updated_by, entry.updated_at) == ("ada", NOON)
        assert "ada changed user 'bob': 9 -> no quota" in capsys.readouterr().out

    def test_changes_and_deletions_are_one_commit(self, visitor: TestClient, tables: str) -> None:
        set_quota(tables, QuotaEntry("bob", 9.0, NOON - seconds(60), "ops"))
        sign_in(visitor)
        before = DeltaTable(table_path(tables, "producer_id_quotas")).version()

        apply(visitor, CHANGE, {"entity_name": "bob", "producer_ids_rate": None, "was": 9.0})

        assert DeltaTable(table_path(tables, "producer_id_quotas")).version() == before + 1

    def test_nothing_is_applied_without_a_session(self, visitor: TestClient) -> None:
        assert apply(visitor, CHANGE).status_code == 403

    def test_a_quota_that_somebody_else_changed_is_not_overwritten(self, visitor: TestClient, tables: str) -> None:
        set_quota(tables, QuotaEntry("alice", 7.0, NOON, "bob"))
        sign_in(visitor)
        answer = apply(visitor, CHANGE)
        assert answer.status_code == 409
        assert "was set to 7 by bob" in answer.json()["error"]
        assert rates(tables) == {"alice": 7.0}

    def test_a_burst_is_set_beside_the_rate_and_one_that_nobody_saw_is_not_overwritten(
        self, visitor: TestClient, tables: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        sign_in(visitor)
        assert apply(visitor, CHANGE | {"producer_ids_burst": 600, "was_burst": None}).status_code == 200
        assert quotas_in_force(tables)[0].producer_ids_burst == 600.0
        assert "ada changed user 'alice': no quota -> 50, burst 600" in capsys.readouterr().out

        unseen = apply(visitor, CHANGE | {"producer_ids_rate": 60, "was": 50})
        seen = apply(visitor, CHANGE | {"producer_ids_rate": 60, "was": 50, "was_burst": 600})

        assert (unseen.status_code, seen.status_code) == (409, 200)
        assert "was set to 50, burst 600 by ada" in unseen.json()["error"]

    def test_a_quota_that_somebody_deleted_is_not_set_again(self, visitor: TestClient, tables: str) -> None:
        set_quota(tables, QuotaEntry("bob", 9.0, NOON, "ops"))
        sign_in(visitor)
        answer = apply(visitor, CHANGE | {"was": 7})
        assert answer.status_code == 409
        assert "user 'alice' has no quota any more meanwhile" in answer.json()["error"]
        assert rates(tables) == {"bob": 9.0}

    def test_a_change_is_visible_at_once_despite_the_cache(self, tables: str, editors: Editors) -> None:
        app = application(ConsoleData(tables), Access(), lambda: NOON, fresh_s=3600, editors=editors)
        visitor = TestClient(app, base_url=OURS, headers=OWN_PAGE)
        set_quota(tables, QuotaEntry("alice", 7.0, NOON, "ops"))
        sign_in(visitor)

        def own_rates() -> list[object]:
            return [row["own_rate"] for row in visitor.get("/api/quotas").json()["quotas"] if row["entity_name"]]

        assert own_rates() == [7.0]
        assert apply(visitor, CHANGE | {"was": 7}).status_code == 200
        assert own_rates() == [50.0]

    def test_an_answer_that_was_being_made_at_a_change_is_not_kept(
        self, tables: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answers = Answers(ConsoleData(tables), lambda: NOON, fresh_s=3600, refresh_s=1)
        numbers = iter(range(2))

        def changed_meanwhile(*_: object) -> dict[str, int]:
            answers.forget()
            return {"number": next(numbers)}

        monkeypatch.setitem(QUERIES, "freshness", changed_meanwhile)

        assert [json.loads(answers.get("freshness", {}))["number"] for _ in range(2)] == [0, 1]

    @pytest.mark.parametrize(
        "change",
        [
            {"entity_name": "User:alice"},
            {"entity_name": ""},
            {"entity_name": "<default>"},
            {"entity_name": 5},
            {"entity_name": "a" * 1025},
            {"producer_ids_rate": -1},
            {"producer_ids_rate": "50"},
            {"producer_ids_burst": 0},
            {"producer_ids_burst": "600"},
            {"producer_ids_rate": None, "producer_ids_burst": 600},
            {"producer_ids_rate": True},
            {"producer_ids_rate": 1e308},
            {"producer_ids_rate": 10**400},
            {"was": "7"},
            {"more": 1},
        ],
    )
    def test_a_request_with_an_invalid_quota_is_refused_as_a_whole(
        self, visitor: TestClient, change: dict[str, Any]
    ) -> None:
        sign_in(visitor)
        answer = apply(visitor, {**CHANGE, "entity_name": "bob"}, CHANGE | change)
        assert answer.status_code == 400
        assert answer.json()["remedy"]

    @pytest.mark.parametrize("body", ["", "[]", "nonsense", '{"changes": []}', '{"changes": 5}', "[" * 50_000])
    def test_an_invalid_request_is_refused(self, visitor: TestClient, body: str) -> None:
        sign_in(visitor)
        answer = visitor.post("/api/quotas/apply", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400

    def test_a_user_twice_or_too_much_is_refused(self, visitor: TestClient) -> None:
        sign_in(visitor)
        assert apply(visitor, CHANGE, CHANGE).status_code == 400
        assert apply(visitor, *({**CHANGE, "entity_name": f"u{n}"} for n in range(101))).status_code == 400
        assert apply(visitor, {**CHANGE, "entity_name": "a" * 70_000}).status_code == 413


class TestFile:
    @pytest.mark.parametrize(
        ("text", "mode", "message"),
        [
            ("", 0o600, "names nobody"),
            ("ada", 0o600, "line 1"),
            ("a:?:?", 0o600, "line 1"),
            *(("a:b:c", mode, "chmod") for mode in (0o644, 0o602, 0o601)),
        ],
    )
    def test_an_invalid_file_of_editors_is_refused(self, tmp_path: Path, text: str, mode: int, message: str) -> None:
        file = tmp_path / "editors"
        file.write_text(text, encoding="utf-8")
        file.chmod(mode)
        with pytest.raises(typer.BadParameter, match=message):
            Editors.load(file)

    @pytest.mark.parametrize(("name", "password"), [("", SECRET), ("a:b", SECRET), ("a\n", SECRET), ("ada", "short")])
    def test_an_invalid_name_or_password_is_refused(self, name: str, password: str) -> None:
        with pytest.raises(typer.BadParameter):
            editor_line(name, password)

    def test_no_line_contains_the_password_and_no_two_lines_are_equal(self, clock: Callable[[], float]) -> None:
        assert clock() > 0
        lines = {editor_line("ada", SECRET) for _ in range(2)}
        assert len(lines) == 2
        assert SECRET not in "".join(lines)


class TestQuotasPage:
    def test_it_shows_quota_suggestion_and_what_both_would_refuse(self, tables: str, visitor: TestClient) -> None:
        rows = [metrics("User:alice", NOON - seconds(3600 * n), admitted_pids=30, new_pids_window=30) for n in range(4)]
        append(tables, "producer_id_metrics", *rows)
        set_quota(tables, QuotaEntry(None, 20.0, NOON, "ops"))
        page = visitor.get("/api/quotas").json()
        (alice,) = page["quotas"]
        assert (alice["rate"], alice["own_rate"], alice["most_pids"], alice["pids_over"]) == (20.0, None, 30, 90)
        assert (alice["suggested"], alice["suggested_over"]) == (45.0, 0)
        assert (page["default"]["producer_ids_rate"], page["default_excess"]["windows_over"]) == (20.0, 4)

    def test_the_effect_of_a_draft_is_shown_before_it_is_applied(self, tables: str, visitor: TestClient) -> None:
        append(tables, "producer_id_metrics", metrics("User:alice", NOON, admitted_pids=30, new_pids_window=30))
        page = visitor.get("/api/what-if", params={"entity": "alice", "rate": "10"}).json()
        assert page["now"] == {"windows": 1, "windows_over": 0, "pids_over": 0}
        assert page["then"] == {"windows": 1, "windows_over": 1, "pids_over": 20}
        assert visitor.get("/api/what-if", params={"rate": "25"}).json()["then"]["pids_over"] == 5
        with_burst = visitor.get("/api/what-if", params={"entity": "alice", "rate": "10", "burst": "28"}).json()
        assert (with_burst["burst"], with_burst["then"]["pids_over"]) == (28.0, 2)
        assert visitor.get("/api/what-if", params={"burst": "28"}).status_code == 400
        for wrong in ("nan", "inf", "-1", "x"):
            assert visitor.get("/api/what-if", params={"rate": wrong}).status_code == 400
        assert json.loads(visitor.get("/api/what-if").text)["users"] == 1

    def test_the_default_applies_after_a_quota_is_deleted(self, tables: str, visitor: TestClient) -> None:
        rows = [metrics(f"User:{name}", NOON, admitted_pids=30, new_pids_window=30) for name in ("alice", "bob")]
        append(tables, "producer_id_metrics", *rows)
        for name, rate in ((None, 20.0), ("alice", 50.0)):
            set_quota(tables, QuotaEntry(name, rate, NOON, "ops"))

        deleted = visitor.get("/api/what-if", params={"entity": "alice"}).json()
        assert (deleted["now"]["pids_over"], deleted["then"]["pids_over"]) == (0, 10)
        # The default covers bob alone.
        default = visitor.get("/api/what-if", params={"rate": "25"}).json()
        assert (default["now"]["pids_over"], default["then"]["pids_over"], default["users"]) == (10, 5, 1)

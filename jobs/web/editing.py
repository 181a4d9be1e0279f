"""The sign-in of editors, and their changes of quotas, in a console with `--editors`."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Any

import typer
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from jobs.output.terminal import printable
from jobs.web.editors import Editors
from jobs.web.pages import ConsoleData
from jobs.web.security import refusal
from quota.allowance import BURST, RATE, Allowance
from quota.errors import InvalidQuotaError
from quota.principals import MAX_PRINCIPAL_BYTES
from tables.errors import TableNotFoundError
from tables.quotas.quota_entry import QuotaEntry, entity_words
from tables.quotas.quota_table import quotas_in_force, set_quotas

_MAX_BYTES = 64 * 1024
_MAX_CHANGES = 100
_FIELDS = {"entity_name", RATE, "was"}
_BURSTS = {BURST, "was_burst"}


@dataclass(frozen=True)
class QuotaEdit:
    """A change of a quota.

    Attributes:
        entity_name: User name; None for the default quota.
        then: The new quota; None deletes the quota.
        was: The quota that the editor saw; None if there was no quota.
    """

    entity_name: str | None
    then: Allowance | None
    was: Allowance | None


@dataclass
class Editing:
    """The routes of a console with editors. They call `changed` after each change."""

    data: ConsoleData
    editors: Editors
    clock: Callable[[], datetime]
    cookie: str
    changed: Callable[[], None]
    lock: Lock = field(default_factory=Lock)

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/api/session", self._session),
            Route("/api/sign-in", self._sign_in, methods=["POST"]),
            Route("/api/sign-out", self._sign_out, methods=["POST"]),
            Route("/api/quotas/apply", self._apply, methods=["POST"]),
        ]

    async def _session(self, request: Request) -> Response:
        return JSONResponse({"can_edit": True, "user": self.editors.user(self._secret(request))})

    async def _sign_in(self, request: Request) -> Response:
        body = await _json(request)
        name, password = body.get("name"), body.get("password")
        if not isinstance(name, str) or not isinstance(password, str):
            raise HTTPException(400, "name or password is missing. Give both")
        wait_s = self.editors.wait_s(request.client.host if request.client else "")
        if wait_s > 0:
            refused = refusal(429, "too many attempts", f"Wait {wait_s / 60:.0f} min, then try again.")
            refused.headers["Retry-After"] = str(int(wait_s) + 1)
            return refused
        secret = await run_in_threadpool(self.editors.sign_in, name, password)
        if secret is None:
            return refusal(403, "name or password is wrong", "Try again, or ask who runs this console.")
        signed_in = JSONResponse({"user": name})
        signed_in.set_cookie(self.cookie, secret, httponly=True, samesite="strict", path="/")
        return signed_in

    async def _sign_out(self, request: Request) -> Response:
        self.editors.sign_out(self._secret(request))
        answer = JSONResponse({"user": None})
        answer.delete_cookie(self.cookie, httponly=True, samesite="strict", path="/")
        return answer

    async def _apply(self, request: Request) -> Response:
        user = self.editors.user(self._secret(request))
        if user is None:
            return refusal(403, "nobody is signed in, or the session has ended", "Sign in; the draft is kept.")
        changes = changes_of(await _json(request))
        await run_in_threadpool(self._write, changes, user)
        return JSONResponse({"applied": len(changes), "user": user})

    def _write(self, changes: list[QuotaEdit], user: str) -> None:
        with self.lock:
            _require_unchanged(self.data.tables, changes)
            now = self.clock()
            entries = [
                QuotaEntry.of(each.entity_name, each.then, now, user) for each in changes if each.then is not None
            ]
            set_quotas(self.data.tables, entries, [each.entity_name for each in changes if each.then is None])
        self.changed()
        for each in changes:
            was, then = ("no quota" if side is None else str(side) for side in (each.was, each.then))
            line = f"{now.isoformat()} {user} changed {entity_words(each.entity_name)}: {was} -> {then}"
            typer.echo(printable(line).plain)

    def _secret(self, request: Request) -> str:
        return request.cookies.get(self.cookie, "")


async def _json(request: Request) -> dict[str, Any]:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MAX_BYTES:
            raise HTTPException(413, f"the request has more than {_MAX_BYTES} bytes. Apply fewer changes at once")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, "the request is not JSON. Send an object") from error
    if not isinstance(found, dict):
        raise HTTPException(400, "the request is not an object. Send one")
    return found


def changes_of(body: dict[str, Any]) -> list[QuotaEdit]:
    """Return the validated changes of a request."""
    rows = body.get("changes")
    if not isinstance(rows, list) or not 0 < len(rows) <= _MAX_CHANGES:
        raise HTTPException(400, f"changes is not a list of 1 to {_MAX_CHANGES}. Send one")
    changes = [_change(row) for row in rows]
    if len({each.entity_name for each in changes}) < len(changes):
        raise HTTPException(400, "a user appears twice in the changes. Keep one of them")
    return changes


def _change(row: object) -> QuotaEdit:
    if not isinstance(row, dict) or not _FIELDS <= set(row) <= _FIELDS | _BURSTS:
        names = ", ".join(sorted(_FIELDS | _BURSTS))
        raise HTTPException(400, f"a change has other fields than {names}. Send these")
    name = row["entity_name"]
    wrong = user_fault(name)
    if wrong:
        raise HTTPException(400, wrong)
    try:
        then, was = (_allowance(row, *keys) for keys in ((RATE, BURST), ("was", "was_burst")))
    except InvalidQuotaError as error:
        raise HTTPException(400, str(error)) from error
    return QuotaEdit(name, then, was)


def _allowance(row: dict[str, Any], rate: str, burst: str) -> Allowance | None:
    numbers = {RATE: row[rate], BURST: row.get(burst)}
    return None if numbers == {RATE: None, BURST: None} else Allowance.parse(numbers)


def user_fault(name: object) -> str:
    """Return what is wrong with a user's name; empty for a valid name and for None, the default quota."""
    if name is None:
        return ""
    if not isinstance(name, str) or not name or name == "<default>":
        return "the user's name is missing. Name a user, or edit the default"
    if name.startswith("User:"):
        return "quotas take the bare name. Leave out 'User:'"
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        return "the user's name is not valid UTF-8. Type it again"
    return (
        "" if size <= MAX_PRINCIPAL_BYTES else f"the user's name has {size} bytes. Give {MAX_PRINCIPAL_BYTES} or less"
    )


def _require_unchanged(tables: str, changes: list[QuotaEdit]) -> None:
    try:
        rates = {entry.entity_name: entry for entry in quotas_in_force(tables)}
    except TableNotFoundError:
        rates = {}
    for each in changes:
        entry = rates.get(each.entity_name)
        if (entry and entry.allowance) != each.was:
            now = "has no quota any more" if entry is None else f"was set to {entry.allowance} by {entry.updated_by}"
            msg = f"{entity_words(each.entity_name)} {now} meanwhile. Nothing was changed: look again, then apply"
            raise HTTPException(409, msg)

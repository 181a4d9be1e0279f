"""The command `pid-quota console`."""

import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from importlib import import_module, resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from jobs.options import StaleSeconds, TablesOption, one_secret
from jobs.output.terminal import OUR_ERRORS, one_line
from jobs.services.listening import CONSOLE_FD, handed_down, ip_of, is_loopback, listening
from jobs.web.answers import QUERIES, Answers
from jobs.web.editing import Editing
from jobs.web.editors import Editors, editor_line
from jobs.web.pages import ConsoleData
from jobs.web.security import (
    APP_FRESH_S,
    APP_PORT,
    APP_REFRESH_S,
    MIN_TOKEN_LENGTH,
    Access,
    ForwardedUser,
    Guard,
    own_names,
    refusal,
    require_app,
)
from tables.query.freshness import STALE_AFTER_S

if TYPE_CHECKING:
    import uvicorn

    from jobs.web.connections import Room

VARIABLE = "PID_QUOTA_CONSOLE_TOKEN"
"""Environment variable of the token."""

CLUSTER = "PID_QUOTA_CLUSTER_NAME"
"""Environment variable of the cluster's name."""

EDITORS = "PID_QUOTA_CONSOLE_EDITORS"
"""Environment variable of the file of editors."""

FRESH_S = 2.0
"""Seconds for which answers are cached."""
REFRESH_S = 10.0
"""Seconds between refreshes of a visible page."""
_END_WITHIN_S = 3


def _print_editor(name: str | None) -> None:
    if name is not None:
        typer.echo(
            editor_line(name, typer.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True))
        )
        raise typer.Exit


def console(
    tables: TablesOption,
    port: Annotated[
        int, typer.Option(envvar=APP_PORT, min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 8080,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but a loopback address requires a token.")
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(envvar=VARIABLE, help="Token that visitors must present; generated and printed if required."),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File whose first line is the token: `ps` shows arguments to everybody.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Additional host name, such as a proxy's; repeatable.")
    ] = None,
    databricks_app: Annotated[
        bool, typer.Option("--databricks-app", help="Run as a Databricks App, which signs visitors in.")
    ] = False,
    editors: Annotated[
        Path | None,
        typer.Option(envvar=EDITORS, help="File with a line for each editor of quotas. --new-editor prints it."),
    ] = None,
    _new_editor: Annotated[
        str | None,
        typer.Option(
            "--new-editor",
            callback=_print_editor,
            is_eager=True,
            help="Ask for this editor's password, print the line for --editors, and exit.",
        ),
    ] = None,
    cluster_name: Annotated[
        str, typer.Option(envvar=CLUSTER, help="Name of the cluster to show instead of its bootstrap servers.")
    ] = "",
    stale_seconds: StaleSeconds = STALE_AFTER_S,
) -> None:
    """Show in the browser who makes producer ids, who is throttled, and how near the others are to their quotas."""
    if databricks_app:
        require_app()
    token = one_secret(token, token_file, "--token")
    if token is not None and len(token) < MIN_TOKEN_LENGTH:
        msg = f"the token has {len(token)} characters, not {MIN_TOKEN_LENGTH} or more. Leave it out to have one made"
        raise typer.BadParameter(msg)
    data = ConsoleData(tables, stale_seconds, cluster_name)
    if databricks_app and editors is not None:
        msg = "--editors does not go with --databricks-app, which only reads: edit with `pid-quota quotas`"
        raise typer.BadParameter(msg)
    who_edits = None if editors is None else Editors.load(editors)
    with handed_down(CONSOLE_FD) or listening(host, port) as listener:
        bound = listener.getsockname()[1]
        if databricks_app:
            typer.echo(f"pid-quota console: a Databricks App on port {bound}, reads {tables}")
            _serve(application(data, ForwardedUser(), fresh_s=APP_FRESH_S, refresh_s=APP_REFRESH_S), listener)
            return
        made = None if token is not None or is_loopback(host) else secrets.token_urlsafe(32)
        access = Access(token or made, own_names(host, allow_host or ()), f"pid_quota_console_{bound}")
        # Import these libraries before the first request, because the import takes a second or two.
        for library in ("deltalake", "duckdb", "pyarrow"):
            import_module(library)
        shown = f" with the token of {token_file or VARIABLE}" if token else "" if made is None else f"?token={made}"
        typer.echo(f"pid-quota console: {_address(host, bound)}{shown}  (Ctrl-C ends it)")
        _serve(application(data, access, editors=who_edits), listener)


def application(
    data: ConsoleData,
    access: Access,
    clock: Callable[[], datetime] | None = None,
    fresh_s: float = FRESH_S,
    refresh_s: float = REFRESH_S,
    editors: Editors | None = None,
) -> Guard:
    """Return the application, which is read-only if `editors` is None."""
    clock = clock or (lambda: datetime.now(timezone.utc))
    static = resources.files("jobs.web").joinpath("static")
    answers = Answers(data, clock, fresh_s, refresh_s)
    own = [Route("/api/session", lambda _request: JSONResponse({"can_edit": False, "user": None}))]
    if editors is not None:
        own = Editing(data, editors, clock, f"{access.cookie}_editor", answers.forget).routes()
    writes = frozenset(route.path for route in own if "POST" in (route.methods or ()))
    index = static.joinpath("index.html").read_text(encoding="utf-8")
    routes = [
        Route("/", lambda _request: HTMLResponse(index)),
        *(Route(f"/api/{name}", answers.endpoint(name)) for name in QUERIES),
        *own,
        Mount("/static", StaticFiles(packages=[("jobs.web", "static")])),
    ]
    app = Starlette(
        routes=routes, exception_handlers=dict.fromkeys((HTTPException, Exception, *OUR_ERRORS), _error_answer)
    )
    app.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=4)
    page = static.joinpath("signin.html").read_text(encoding="utf-8")
    return Guard(app, access, page, writes)


async def _error_answer(_request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        status, message = error.status_code, error.detail
    elif isinstance(error, OUR_ERRORS):
        status, message = 503, str(error)
    else:
        status, message = 500, f"{type(error).__name__}. This is a bug: see the console's own output and report it"
    if status == 404:
        message = "there is no such page. Start at /"
    # Our messages consist of an error and a remedy.
    problem, _, remedy = one_line(message).partition(". ")
    return refusal(status, problem, remedy or "See `pid-quota console --help`.")


def _address(host: str, port: int) -> str:
    address = ip_of(host)
    shown = socket.gethostname() if address is not None and address.is_unspecified else host
    return f"http://[{shown}]:{port}/" if ":" in shown else f"http://{shown}:{port}/"


def server(app: Guard, room: "Room | None" = None) -> "uvicorn.Server":
    """Return a server, to run on a listening socket."""
    import uvicorn

    from jobs.web.connections import PatientProtocol, Room

    # A partial is enough, because uvicorn only calls this argument, once per connection.
    protocol: Any = partial(PatientProtocol, room=room or Room())
    settings = uvicorn.Config(
        app,
        http=protocol,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=_END_WITHIN_S,
    )
    return uvicorn.Server(settings)


def _serve(app: Guard, listener: socket.socket) -> None:
    # Ctrl-C ends the console without an error.
    with suppress(KeyboardInterrupt):
        server(app).run(sockets=[listener])

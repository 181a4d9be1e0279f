"""The command `pid-quota console`."""

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
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from jobs.options import ADDRESS, TablesOption, listen_address
from jobs.output.terminal import OUR_ERRORS, one_line
from jobs.services.listening import CONSOLE_FD, handed_down, in_url, ip_of, listening
from jobs.web.access import Access, ForwardedUser, app_address, token_access
from jobs.web.answers import QUERIES, Answers, refusal
from jobs.web.pages import ConsoleData
from jobs.web.security import HEALTH, Guard

if TYPE_CHECKING:
    import uvicorn

    from jobs.web.connections import Room

FRESH_S, REFRESH_S = 2.0, 10.0
"""Seconds for which answers are cached, and seconds between refreshes of a visible page."""
APP_FRESH_S, APP_REFRESH_S = 30.0, 60.0
"""The same in a Databricks App, where every query costs warehouse time."""
_END_WITHIN_S = 3


def console(
    tables: TablesOption,
    listen: Annotated[
        str,
        typer.Option(
            metavar=ADDRESS,
            help="Address of the console; any but a loopback address requires a token. Port 0 takes a free one.",
        ),
    ] = "8080",
    token_file: Annotated[
        Path | None,
        typer.Option(
            envvar="PID_QUOTA_CONSOLE_TOKEN_FILE",
            help="File whose first line is the token that visitors give as the password.",
        ),
    ] = None,
    databricks_app: Annotated[
        bool, typer.Option("--databricks-app", help="Run as a Databricks App, which signs visitors in.")
    ] = False,
) -> None:
    """Show in the browser who makes producer ids, who is throttled, and how near the others are to their quotas."""
    data = ConsoleData(tables)
    if databricks_app:
        host, port = app_address()
        app = application(data, ForwardedUser(), fresh_s=APP_FRESH_S, refresh_s=APP_REFRESH_S)
    else:
        host, port = listen_address(listen, "--listen")
        app = application(data, token_access(host, token_file))
    with handed_down(CONSOLE_FD) or listening(host, port) as listener:
        # Import these libraries before the first request, because the import takes a second or two.
        for library in () if databricks_app else ("deltalake", "duckdb", "pyarrow"):
            import_module(library)
        typer.echo(f"pid-quota console: {_url(host, listener.getsockname()[1])}  (Ctrl-C ends it)")
        _serve(app, listener)


def application(
    data: ConsoleData,
    access: Access,
    clock: Callable[[], datetime] | None = None,
    fresh_s: float = FRESH_S,
    refresh_s: float = REFRESH_S,
) -> Guard:
    """Return the application."""
    answers = Answers(data, clock or (lambda: datetime.now(timezone.utc)), fresh_s, refresh_s)
    index = (resources.files("jobs.web") / "static" / "index.html").read_text(encoding="utf-8")
    routes = [
        Route("/", lambda _request: HTMLResponse(index)),
        Route(HEALTH, lambda _request: PlainTextResponse("ok\n")),
        *(Route(f"/api/{name}", answers.endpoint(name)) for name in QUERIES),
        Mount("/static", StaticFiles(packages=[("jobs.web", "static")])),
    ]
    app = Starlette(
        routes=routes, exception_handlers=dict.fromkeys((HTTPException, Exception, *OUR_ERRORS), _error_answer)
    )
    app.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=4)
    return Guard(app, access)


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


def _url(host: str, port: int) -> str:
    address = ip_of(host)
    shown = socket.gethostname() if address is not None and address.is_unspecified else host
    return f"http://{in_url((shown, port))}/"


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

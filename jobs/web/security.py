"""Access to the web console: token or Databricks sign-in, host names, and security headers."""

import hmac
import json
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import quote, urlsplit

import typer
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobs.services.listening import ip_of

MIN_TOKEN_LENGTH = 16
APP_FRESH_S, APP_REFRESH_S = 30.0, 60.0
"""Seconds of caching, and seconds between refreshes, in a Databricks App, where every query costs warehouse time."""
APP_PORT = "DATABRICKS_APP_PORT"
"""Environment variable that Databricks Apps sets."""
_APP_NAME = "DATABRICKS_APP_NAME"
_USER = ("x-forwarded-email", "x-forwarded-user")

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_OPEN = "/static/"
"""Path of static files, which need no token."""


@dataclass(frozen=True)
class Access:
    """Access to the console by a token.

    Attributes:
        token: The token that visitors need, or None.
        names: The console's host names, in lower case. IP addresses are always accepted.
        cookie: Name of the cookie. Callers add the port, because browsers share cookies between ports.
    """

    token: str | None = field(default=None, repr=False)
    names: frozenset[str] = frozenset({"localhost"})
    cookie: str = "pid_quota_console"

    missing: ClassVar[tuple[str, str]] = (
        "a token is required",
        "Open / and give the token that `pid-quota console` printed.",
    )
    """Error and remedy for a request that `allows` rejects."""

    def is_ours(self, host: str) -> bool:
        """Return whether a Host header is a name or an address of this console.

        The check prevents DNS rebinding, in which a foreign page's host name resolves to the console's address.
        """
        bare = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        return bare.lower() in self.names or ip_of(bare) is not None

    def user(self, _headers: Headers) -> str:
        """Return an empty name, since a token names nobody."""
        return ""

    def allows(self, request: HTTPConnection) -> bool:
        """Return whether a request presents the token, in its cookie or as `Authorization: Bearer`."""
        if self.token is None:
            return True
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.matches(shown.strip()):
            return True
        return hmac.compare_digest(_bytes(request.cookies.get(self.cookie, "")), _bytes(self.session()))

    def matches(self, shown: str) -> bool:
        """Return whether `shown` is the console's token, in constant time."""
        return self.token is not None and hmac.compare_digest(_bytes(shown), _bytes(self.token))

    def session(self) -> str:
        """Return the cookie's value, which is derived from the token without revealing it."""
        return hmac.new(_bytes(self.token or ""), b"pid-quota console cookie", "sha256").hexdigest()


@dataclass(frozen=True)
class ForwardedUser(Access):
    """Access by the user headers that the proxy of Databricks Apps sets."""

    missing: ClassVar[tuple[str, str]] = (
        "no user is named",
        "Open the console by its address in the workspace: Databricks Apps signs visitors in.",
    )

    def is_ours(self, _host: str) -> bool:
        """Accept any host name, because requests through DNS rebinding have no user headers."""
        return True

    def user(self, headers: Headers) -> str:
        """Return the user that the proxy's headers name, or an empty text."""
        shown = next(filter(None, map(headers.get, _USER)), "")
        # The proxy sends UTF-8, and Starlette decodes headers as Latin-1.
        return shown.encode("latin-1").decode("utf-8", "replace")

    def allows(self, request: HTTPConnection) -> bool:
        """Return whether the headers name a user."""
        return bool(self.user(request.headers))


def require_app() -> None:
    """Raise an error outside Databricks Apps, where anybody can forge user headers."""
    if not os.environ.get(_APP_NAME):
        msg = (
            "--databricks-app trusts a header that only the proxy of Databricks Apps may set, and "
            f"{_APP_NAME} is not set here: leave it out, and visitors show a token"
        )
        raise typer.BadParameter(msg)


def is_own_page(headers: Headers) -> bool:
    """Return whether a request comes from a page of this console.

    Pages can't forge `Origin` and `Sec-Fetch-Site`. A browser sends JSON for a foreign page only with the server's
    permission, which this server never gives.
    """
    origin = urlsplit(headers.get("origin", ""))
    return (
        origin.scheme in ("http", "https")
        and origin.netloc.lower() == headers.get("host", "").lower()
        and headers.get("sec-fetch-site", "same-origin") == "same-origin"
        and headers.get("content-type", "").partition(";")[0].strip() == "application/json"
    )


def own_names(host: str, more: Sequence[str] = ()) -> frozenset[str]:
    """Return the host names that a console on `host` answers to."""
    return frozenset(name.lower() for name in ("localhost", host, socket.gethostname(), *more))


def refusal(status: int, error: str, remedy: str) -> Response:
    """Return an error as one line of JSON."""
    line = json.dumps({"error": error, "remedy": remedy}, ensure_ascii=False) + "\n"
    return Response(line, status, media_type="application/json")


class Guard:
    """An application that rejects requests with a wrong host or token, and adds security headers to every answer.

    Only requests from the console's pages to the paths in `writes` can write.
    """

    def __init__(self, app: ASGIApp, access: Access, sign_in_page: str, writes: frozenset[str]) -> None:
        self.app, self.access, self.sign_in_page, self.writes = app, access, sign_in_page, writes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an ASGI request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            # The console has no WebSockets. A close before an accept makes the server answer 403.
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                if user := self.access.user(Headers(scope=scope)):
                    headers["X-Console-User"] = quote(user, safe="@")
                headers.setdefault("Cache-Control", "no-cache" if scope["path"].startswith(_OPEN) else "no-store")
            await send(message)

        answer = self._refuse(scope) or self.app
        await answer(scope, receive, send_guarded)

    def _refuse(self, scope: Scope) -> Response | None:
        request = HTTPConnection(scope)
        writes = scope["method"] == "POST" and scope["path"] in self.writes
        if scope["method"] not in ("GET", "HEAD") and not writes:
            answer = refusal(405, f"{scope['method']} is not for a page that only reads", "Use GET or HEAD.")
            answer.headers["Allow"] = "GET, HEAD"
            return answer
        if not self.access.is_ours(request.headers.get("host", "")):
            return refusal(
                421,
                "this console does not answer to that host name",
                "Use its address, or start it with --allow-host and the name.",
            )
        if writes and not is_own_page(request.headers):
            return refusal(403, "this request is not from a page of this console", "Use the console's own pages.")
        if scope["path"].startswith(_OPEN):
            return None
        if scope["path"] == "/" and self.access.matches(request.query_params.get("token", "")):
            # Redirect, to remove the token from the address bar.
            answer = RedirectResponse("/", 303)
            answer.set_cookie(self.access.cookie, self.access.session(), httponly=True, samesite="strict", path="/")
            return answer
        if self.access.allows(request):
            return None
        if scope["path"] == "/" and self.access.token is not None:
            return HTMLResponse(self.sign_in_page, 401)
        return refusal(401, *self.access.missing)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")

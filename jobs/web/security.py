"""The guard of the console: reads only, access, and security headers."""

from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobs.web.access import Access
from jobs.web.answers import refusal

HEALTH = "/healthz"
"""Path of the probe, which is open to everybody and reads no table."""
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


class Guard:
    """An application that answers only reads and only who has access, and adds security headers to every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an ASGI request."""
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
                headers.setdefault("Cache-Control", "no-cache" if scope["path"].startswith("/static/") else "no-store")
            await send(message)

        answer = self._refuse(scope) or self.app
        await answer(scope, receive, send_guarded)

    def _refuse(self, scope: Scope) -> Response | None:
        if scope["method"] not in ("GET", "HEAD"):
            error = f"{scope['method']} is not for a page that only reads"
            return refusal(405, error, "Use GET or HEAD.", {"Allow": "GET, HEAD"})
        return None if scope["path"] == HEALTH else self.access.refuse(Headers(scope=scope))

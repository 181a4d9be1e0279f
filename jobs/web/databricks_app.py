"""The console as a Databricks App: the platform authenticates visitors, so there is no token."""

import os
from dataclasses import dataclass
from typing import ClassVar

import typer
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from jobs.web.security import Access

APP_FRESH_S, APP_REFRESH_S = 30.0, 60.0
"""Longer than for path tables: every query costs warehouse time."""
APP_PORT = "DATABRICKS_APP_PORT"
"""Set by Databricks Apps."""
_APP_NAME = "DATABRICKS_APP_NAME"
_USER = ("x-forwarded-email", "x-forwarded-user")


def require_app() -> None:
    """Raise unless the proxy of Databricks Apps is in front: elsewhere anybody could forge the user header."""
    if not os.environ.get(_APP_NAME):
        msg = (
            "--databricks-app trusts a header that only the proxy of Databricks Apps may set, and "
            f"{_APP_NAME} is not set here: leave it out, and visitors show a token"
        )
        raise typer.BadParameter(msg)


@dataclass(frozen=True)
class ForwardedUser(Access):
    """Trusts the App's proxy, which sets the user headers and can't be bypassed."""

    missing: ClassVar[tuple[str, str]] = (
        "no user is named",
        "Open the console by its address in the workspace: Databricks Apps signs visitors in.",
    )

    def is_ours(self, _host: str) -> bool:
        """Accept any host name: the platform assigns it, and DNS rebinding gets no user headers."""
        return True

    def user(self, headers: Headers) -> str:
        """Return the user of the proxy's headers; empty if there is none."""
        shown = next(filter(None, map(headers.get, _USER)), "")
        # The proxy sends UTF-8, and Starlette decodes headers as Latin-1.
        return shown.encode("latin-1").decode("utf-8", "replace")

    def allows(self, request: HTTPConnection) -> bool:
        """Return whether a user is named."""
        return bool(self.user(request.headers))

"""The console as a Databricks App: the platform signs visitors in and says who they are, so no token of our own."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import typer
from starlette.datastructures import Headers

from jobs.web.security import Access

APP_FRESH_S, APP_REFRESH_S = 30.0, 60.0
"""Each question costs time of a SQL warehouse: asked less often than of tables in a folder."""
APP_PORT = "DATABRICKS_APP_PORT"
"""Set by Databricks Apps."""
_APP_NAME = "DATABRICKS_APP_NAME"
_USER = ("x-forwarded-email", "x-forwarded-user")


def require_app(environment: Mapping[str, str] = os.environ) -> None:
    """See that the proxy of Databricks Apps is before us: elsewhere anybody could name a user.

    Raises:
        BadParameter: If this process is no App.
    """
    if not environment.get(_APP_NAME):
        msg = (
            "--databricks-app takes whom a header names, which only the proxy of Databricks Apps may set, and "
            f"{_APP_NAME} is not set here: leave it out, and visitors show a token"
        )
        raise typer.BadParameter(msg)


@dataclass(frozen=True)
class ForwardedUser(Access):
    """Takes whom the App's proxy lets through: it sets the headers itself, and nobody reaches the App around it."""

    missing: ClassVar[tuple[str, str]] = (
        "no user is named",
        "Open the console by its address in the workspace: Databricks Apps signs visitors in.",
    )

    def is_ours(self, host: str) -> bool:
        """Take any name: the platform gives the App its own, and DNS rebinding gets no user's headers."""
        return True

    def user(self, headers: Headers) -> str:
        """Return who asks, as the proxy says; empty if it does not."""
        shown = next(filter(None, map(headers.get, _USER)), "")
        # The proxy sends UTF-8, and Starlette takes every header for Latin-1.
        return shown.encode("latin-1").decode("utf-8", "replace")

    def allows(self, headers: Headers) -> bool:
        """Say whether a user is named."""
        return bool(self.user(headers))

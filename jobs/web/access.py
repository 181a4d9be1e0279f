"""Who may read the console: everybody on this machine, who has the token, or whom Databricks signs in."""

import base64
import binascii
import hmac
import os
import re
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import Protocol

import typer
from starlette.datastructures import Headers
from starlette.responses import Response

from jobs.options import first_line
from jobs.services.listening import Address, ip_of, is_loopback
from jobs.web.answers import refusal

VARIABLE = "PID_QUOTA_CONSOLE_TOKEN"
"""Environment variable of the token."""
MIN_TOKEN_LENGTH = 16
_APP_NAME, _APP_PORT = "DATABRICKS_APP_NAME", "DATABRICKS_APP_PORT"
_EVERYWHERE = str(IPv4Address(0))
_USER = ("x-forwarded-email", "x-forwarded-user")
_HOST = re.compile(r"(?:\[([^\]]+)\]|([^:]+))(?::[0-9]{1,5})?")
"""A header `Host`: an IPv6 address in brackets or another host, and a port perhaps."""
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="pid-quota console", charset="UTF-8"'}


class Access(Protocol):
    """Decides which requests are answered."""

    def refuse(self, headers: Headers) -> Response | None:
        """Return the answer to a request that is refused, or None."""

    def user(self, headers: Headers) -> str:
        """Return who asks, if the headers tell it; else an empty text."""


@dataclass
class TokenAccess:
    """Access by a token, as the password of HTTP Basic authentication with any user name.

    Attributes:
        token: The token; empty if there is none.
        file: File whose first line is the token, instead of `token`. It is read for each request.
        is_required: Whether nobody may read without a token. Once there was a token, nobody may.
        names: Host names of a console without a token, in lower case. IP addresses are always accepted.
    """

    token: str = field(default="", repr=False)
    file: Path | None = None
    is_required: bool = False
    names: frozenset[str] = frozenset({"localhost", socket.gethostname().lower()})

    def refuse(self, headers: Headers) -> Response | None:
        """Refuse a request without the token, or to a foreign host name if there is no token.

        The check of the name prevents DNS rebinding, in which a foreign page's host name resolves to the console's
        address. A browser gives the token only to the host name that its user gave the token for.
        """
        token = self._token()
        self.is_required = self.is_required or bool(token)
        if self.is_required:
            is_shown = hmac.compare_digest(_password(headers), token.encode("utf-8", "surrogateescape"))
            if is_shown and len(token) >= MIN_TOKEN_LENGTH:
                return None
            remedy = "Give the console's token as the password, with any user name."
            return refusal(401, "a token is required", remedy, _CHALLENGE)
        if not self._is_ours(headers.get("host", "")):
            remedy = "Use its address, or give the console a token."
            return refusal(421, "this console does not answer to that host name", remedy)
        return None

    def user(self, _headers: Headers) -> str:
        """Return an empty name, since a token names nobody."""
        return ""

    def _token(self) -> str:
        with suppress(OSError):
            return self.token if self.file is None else first_line(self.file)
        return ""

    def _is_ours(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        bare = found[1] or found[2]
        return bare.lower() in self.names or ip_of(bare) is not None


class ForwardedUser:
    """Access by the user headers that the proxy of Databricks Apps sets.

    Requests through DNS rebinding have no such headers.
    """

    def refuse(self, headers: Headers) -> Response | None:
        """Refuse a request whose headers name no user."""
        remedy = "Open the console by its address in the workspace: Databricks Apps signs visitors in."
        return None if self.user(headers) else refusal(401, "no user is named", remedy)

    def user(self, headers: Headers) -> str:
        """Return the user that the proxy's headers name, or an empty text."""
        shown = next(filter(None, map(headers.get, _USER)), "")
        # The proxy sends UTF-8, and Starlette decodes headers as Latin-1.
        return shown.encode("latin-1").decode("utf-8", "replace")


def token_access(host: str, file: Path | None) -> TokenAccess:
    """Return the access to a console on `host`, with the token of `file` or of the environment.

    While `file` has no token, the console runs, but admits nobody unless `host` is a loopback address.

    Raises:
        BadParameter: If a required token is missing, if a token is too short, or if both `file` and the environment
            have a token.
    """
    token, read = os.environ.get(VARIABLE, "").strip(), "" if file is None else _readable(file)
    if token and read:
        msg = f"{VARIABLE} and --token-file both set the token: give one of them"
        raise typer.BadParameter(msg)
    found = token or read
    if found and len(found) < MIN_TOKEN_LENGTH:
        msg = f"the console's token has {len(found)} characters, not {MIN_TOKEN_LENGTH} or more: give a longer one"
        raise typer.BadParameter(msg)
    if not found and file is None and not is_loopback(host):
        msg = f"--listen {host} lets others in, so the console needs a token: give --token-file, or set {VARIABLE}"
        raise typer.BadParameter(msg)
    return TokenAccess(token, None if token else file, is_required=bool(found) or not is_loopback(host))


def app_address() -> Address:
    """Return where a Databricks App listens.

    Raises:
        BadParameter: Outside Databricks Apps, where anybody can forge user headers.
    """
    if not os.environ.get(_APP_NAME):
        msg = (
            "--databricks-app trusts a header that only the proxy of Databricks Apps may set, and "
            f"{_APP_NAME} is not set here: leave it out, and give the console a token"
        )
        raise typer.BadParameter(msg)
    return _EVERYWHERE, int(os.environ.get(_APP_PORT, "8000"))


def _readable(file: Path) -> str:
    try:
        return first_line(file)
    except OSError as error:
        msg = f"--token-file {file} can't be read ({error.strerror}): check the path and its permissions"
        raise typer.BadParameter(msg) from error


def _password(headers: Headers) -> bytes:
    """Return the password of HTTP Basic authentication (RFC 7617), or nothing."""
    scheme, _, shown = headers.get("authorization", "").partition(" ")
    try:
        return base64.b64decode(shown, validate=True).partition(b":")[2] if scheme.lower() == "basic" else b""
    except (binascii.Error, ValueError):
        return b""

"""Posts notices to an HTTP endpoint from a background thread, so that enforcement never waits."""

import hashlib
import hmac
import json
import queue
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from types import MappingProxyType
from typing import Any
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3

from broker.enforcement.notices import Notice, NoticeAction
from broker.errors import WebhookError

URL_VARIABLE = "PID_QUOTA_WEBHOOK"
KEY_VARIABLE = "PID_QUOTA_WEBHOOK_SECRET"
SIGNATURE_HEADER = "X-Pid-Quota-Signature"
TIMESTAMP_HEADER = "X-Pid-Quota-Timestamp"

EVENTS: Mapping[NoticeAction, str] = MappingProxyType(
    {
        "throttled": "THROTTLE",
        "restored": "RELEASE",
        "relinquished": "RELEASE",
        "failed": "FAIL_OPEN",
        "skipped": "FAIL_OPEN",
        "alert": "ALERT",
    }
)
"""The event for each action of a notice. FAIL_OPEN means that a decision is not enforced, or only in part."""

LooksLike = Callable[[Collection[str]], Mapping[str, str]]
"""A function that returns likely causes by principal, such as `likely deploy, else leak`. It omits unknown causes."""

THROTTLED_PAGE = "docs/throttled.md"

_MAX_WAITING = 1_000
_MAX_IN_A_POST = 100
_PAUSE_S = 1.0
_RETRY_S = (1.0, 2.0, 4.0, 8.0, 16.0)
_TIMEOUT_S = 5.0
_CLOSE_S = 10.0


class Webhook:
    """A sender that posts notices in order. A notice may be sent twice. Lost notices are counted and reported."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        warn: Callable[[str], None],
        dry_run: bool = False,
        looks_like: LooksLike = lambda _: {},
        pause_s: float = _PAUSE_S,
        retry_s: tuple[float, ...] = _RETRY_S,
    ) -> None:
        """Check the URL. Sending starts when the context is entered.

        Messages show only the URL's host, because path and query may be secret. `key` signs each POST (HMAC-SHA256).
        """
        self._url = _endpoint(url)
        self._http = _client(self._url)
        if not key:
            msg = f"a webhook needs a secret to sign with: set {KEY_VARIABLE}"
            raise WebhookError(msg)
        self._key = key.encode()
        self._warn, self._dry_run, self._pause_s, self._retry_s = warn, dry_run, pause_s, retry_s
        self._looks_like = looks_like
        self._waiting: queue.Queue[dict[str, Any]] = queue.Queue(_MAX_WAITING)
        self._ending = threading.Event()
        self.dropped = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)

    def __enter__(self) -> "Webhook":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Send the remaining notices, for at most 10 s."""
        self._ending.set()
        self._thread.join(_CLOSE_S)
        self._http.clear()
        left = self._waiting.qsize()
        if left:
            self._warn(f"webhook {self._url.hostname}: notices not sent before the enforcer stopped: {left}")

    def enqueue(self, notice: Notice) -> None:
        """Queue a notice. This never blocks."""
        event = EVENTS.get(notice.action)
        if event is None:
            return
        try:
            help_page = {"help": THROTTLED_PAGE} if event == "THROTTLE" else {}
            self._waiting.put_nowait({"event": event, **notice.record(dry_run=self._dry_run), **help_page})
        except queue.Full:
            self._drop(1, f"queue full ({_MAX_WAITING})")

    def _run(self) -> None:
        while True:
            # No other thread takes notices, so the queue has at least `qsize` notices.
            batch = [self._waiting.get_nowait() for _ in range(min(self._waiting.qsize(), _MAX_IN_A_POST))]
            if batch:
                self._deliver(batch)
            elif self._ending.is_set():
                return
            self._ending.wait(self._pause_s)

    def _deliver(self, batch: list[dict[str, Any]]) -> None:
        throttles = [event for event in batch if event["event"] == "THROTTLE"]
        causes = self._looks_like({event["principal"] for event in throttles})
        for event in throttles:
            event["looks_like"] = causes.get(event["principal"])
        # All attempts send the same body, so that receivers can deduplicate by delivery_id.
        body = json.dumps(
            {"source": "pid-quota", "delivery_id": uuid.uuid4().hex, "dropped": self.dropped, "events": batch}
        ).encode()
        reason = ""
        for wait_s in (0.0, *self._retry_s):
            if wait_s and self._ending.wait(wait_s):
                break
            reason, is_final = self._post(body)
            if is_final:
                break
        if reason:
            self._drop(len(batch), reason)

    def _post(self, body: bytes) -> tuple[str, bool]:
        """POST once. Return the failure or an empty text, and whether retrying is pointless."""
        # The signature of each attempt covers time and body, so that receivers can reject replays.
        timestamp = str(round(time.time()))
        signature = hmac.new(self._key, f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "pid-quota",
            TIMESTAMP_HEADER: timestamp,
            SIGNATURE_HEADER: f"sha256={signature}",
        }
        try:
            # Redirects are not followed, so signed notices reach no other host. Answers are not read, because an answer
            # may never end.
            answer = self._http.request(
                "POST", self._url.geturl(), body, headers=headers, redirect=False, preload_content=False
            )
            with closing(answer):
                status = answer.status
        except (OSError, urllib3.exceptions.HTTPError) as error:
            return _cause(error), False
        return ("" if 200 <= status < 300 else f"it answered {status}"), status < 500 and status not in (408, 429)

    def _drop(self, count: int, reason: str) -> None:
        with self._lock:
            before, self.dropped = self.dropped, self.dropped + count
        # Warn if several notices are lost at once. For single notices, warn only at each power of ten.
        if count > 1 or len(str(before)) != len(str(self.dropped)) or not before:
            self._warn(f"webhook {self._url.hostname}: {reason}; notices dropped so far: {self.dropped}")


def _client(url: SplitResult) -> urllib3.PoolManager:
    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    settings: dict[str, Any] = {"timeout": _TIMEOUT_S, "retries": False}
    if not proxy or proxy_bypass(url.netloc):
        return urllib3.PoolManager(**settings)
    try:
        parsed = urllib3.util.parse_url(proxy if "://" in proxy else f"http://{proxy}")
        login = urllib3.make_headers(proxy_basic_auth=parsed.auth) if parsed.auth else None
        # Remove the login, because an error might show the URL.
        return urllib3.ProxyManager(parsed._replace(auth=None).url, proxy_headers=login, **settings)
    except urllib3.exceptions.HTTPError as error:
        msg = f"the proxy of {url.scheme.upper()}_PROXY can't be used for the webhook: write http://host:port"
        raise WebhookError(msg) from error


def _cause(error: BaseException) -> str:
    """Return an error's root cause. The error itself may show the URL."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {error}" if isinstance(error, OSError) else type(error).__name__


def _endpoint(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        is_fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_fine = False
    # The URL may hold a secret, so the message does not repeat it.
    if not is_fine:
        msg = "--webhook is not an HTTP(S) URL: write https://host/path"
        raise WebhookError(msg)
    if parts.username is not None:
        msg = f"--webhook has user info for {parts.hostname}, which is not supported: remove it, POSTs are signed"
        raise WebhookError(msg)
    return parts

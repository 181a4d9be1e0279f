"""Posts notices to an HTTP endpoint from a background thread, so that enforcement never waits for it.

Each POST batches the notices since the last one: a storm of decisions makes few requests.
"""

import hashlib
import hmac
import json
import os
import queue
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from types import MappingProxyType, TracebackType
from typing import Any
from urllib.parse import SplitResult, urlsplit

from broker.enforcer.notices import Notice, NoticeKind
from broker.errors import WebhookError

URL_VARIABLE = "PID_QUOTA_WEBHOOK"
KEY_VARIABLE = "PID_QUOTA_WEBHOOK_SECRET"
SIGNATURE_HEADER = "X-Pid-Quota-Signature"
TIMESTAMP_HEADER = "X-Pid-Quota-Timestamp"

EVENTS: Mapping[NoticeKind, str] = MappingProxyType(
    {
        "throttled": "THROTTLE",
        "restored": "RELEASE",
        "relinquished": "RELEASE",
        "failed": "FAIL_OPEN",
        "skipped": "FAIL_OPEN",
        "alert": "ALERT",
    }
)
"""Event by notice. FAIL_OPEN: a decision that is not enforced, so its principal is not throttled."""

_MAX_WAITING = 1_000
_MAX_IN_A_POST = 100
_PAUSE_S = 1.0
_RETRY_S = (1.0, 2.0, 4.0, 8.0, 16.0)
_TIMEOUT_S = 5.0
_CLOSE_S = 10.0


class Webhook:
    """Sends notices in order, each at least once or not at all; dropped ones are counted and reported."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        warn: Callable[[str], None],
        dry_run: bool = False,
        pause_s: float = _PAUSE_S,
        retry_s: tuple[float, ...] = _RETRY_S,
    ) -> None:
        """Check the URL; sending starts when the context is entered.

        Args:
            url: Where to POST; only its host is ever shown, since path and query may be secret.
            key: Signs each POST (HMAC-SHA256).
            warn: Called with problems, from the sending thread.
            dry_run: Mark events as those of a dry run.
            pause_s: Least time between two POSTs.
            retry_s: Backoff before each retry, in seconds.

        Raises:
            WebhookError: If the URL is invalid, or the key is empty.
        """
        self._url = _endpoint(url)
        if not key:
            msg = f"a webhook needs a secret to sign with: set {KEY_VARIABLE}"
            raise WebhookError(msg)
        self._key = key.encode()
        self._warn, self._dry_run, self._pause_s, self._retry_s = warn, dry_run, pause_s, retry_s
        self._waiting: queue.Queue[dict[str, Any]] = queue.Queue(_MAX_WAITING)
        self._ending = threading.Event()
        self._dropped = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)

    @classmethod
    def from_environment(cls, url: str, *, warn: Callable[[str], None], dry_run: bool) -> "Webhook":
        """Make one with the key of PID_QUOTA_WEBHOOK_SECRET; raises as the class."""
        return cls(url, os.environ.get(KEY_VARIABLE, ""), warn=warn, dry_run=dry_run)

    def __enter__(self) -> "Webhook":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Send what is left, for at most 10 s."""
        self._ending.set()
        self._thread.join(_CLOSE_S)
        left = self._waiting.qsize()
        if left:
            self._warn(f"webhook {self._url.hostname}: notices not sent before the enforcer stopped: {left}")

    @property
    def dropped(self) -> int:
        """Notices dropped so far."""
        return self._dropped

    def enqueue(self, notice: Notice) -> None:
        """Queue a notice; never blocks."""
        event = EVENTS.get(notice.kind)
        if event is None:
            return
        try:
            self._waiting.put_nowait({"event": event, **notice.record(dry_run=self._dry_run)})
        except queue.Full:
            self._drop(1, f"queue full ({_MAX_WAITING})")

    def _run(self) -> None:
        while True:
            batch = self._next()
            if batch:
                self._deliver(batch)
            elif self._ending.is_set():
                return
            self._ending.wait(self._pause_s)

    def _next(self) -> list[dict[str, Any]]:
        batch: list[dict[str, Any]] = []
        while len(batch) < _MAX_IN_A_POST:
            try:
                batch.append(self._waiting.get_nowait())
            except queue.Empty:
                break
        return batch

    def _deliver(self, batch: list[dict[str, Any]]) -> None:
        # The same body at each attempt: receivers deduplicate by delivery_id.
        body = json.dumps(
            {"source": "pid-quota", "delivery_id": uuid.uuid4().hex, "dropped": self._dropped, "events": batch}
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
        """POST once; return the failure (empty if none), and whether retrying is pointless."""
        # Signed with the body, per attempt: receivers can reject replays.
        timestamp = str(round(time.time()))
        signature = hmac.new(self._key, f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "pid-quota",
            TIMESTAMP_HEADER: timestamp,
            SIGNATURE_HEADER: f"sha256={signature}",
        }
        url = self._url
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        connect = HTTPSConnection if url.scheme == "https" else HTTPConnection
        try:
            with closing(connect(url.hostname or "", url.port, timeout=_TIMEOUT_S)) as connection:
                connection.request("POST", target, body, headers)
                status = connection.getresponse().status
        except (OSError, HTTPException) as error:
            return f"{type(error).__name__}: {error}", False
        # Redirects are not followed: signed notices go to no other host.
        return ("" if 200 <= status < 300 else f"it answered {status}"), status < 500 and status not in (408, 429)

    def _drop(self, count: int, reason: str) -> None:
        with self._lock:
            before, self._dropped = self._dropped, self._dropped + count
        # In a flood, warn at each power of ten.
        if count > 1 or len(str(before)) != len(str(self._dropped)) or not before:
            self._warn(f"webhook {self._url.hostname}: {reason}; notices dropped so far: {self._dropped}")


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

"""Answers the requests of the console's pages, from a cache that all browsers share."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from jobs.web import quota_pages
from jobs.web.editing import user_fault
from jobs.web.pages import HISTORY_SPANS_HOURS, OVERVIEW_SPANS_HOURS, SPANS_HOURS, ConsoleData
from quota.allowance import BURST, RATE, Allowance
from quota.errors import InvalidQuotaError

_ANSWERS = 64
_Page = Callable[[ConsoleData, datetime, Mapping[str, str]], dict[str, Any]]


def _principal(data: ConsoleData, now: datetime, query: Mapping[str, str]) -> dict[str, Any]:
    name = query.get("name", "")
    if not name:
        raise HTTPException(400, "no principal is named. Ask with ?name=User:alice")
    return data.principal(now, name, _hours(query, SPANS_HOURS))


def _history(page: Callable[[ConsoleData, datetime, float, str], dict[str, Any]]) -> _Page:
    return lambda data, now, query: page(data, now, _hours(query, HISTORY_SPANS_HOURS), query.get("name", ""))


def _what_if(data: ConsoleData, now: datetime, query: Mapping[str, str]) -> dict[str, Any]:
    name = query.get("entity")
    fault = user_fault(name)
    if fault:
        raise HTTPException(400, fault)
    rate, burst = (_pids(which, query.get(which, "")) for which in ("rate", "burst"))
    try:
        allowance = None if rate is burst is None else Allowance.parse({RATE: rate, BURST: burst})
    except InvalidQuotaError as error:
        raise HTTPException(400, str(error)) from error
    return quota_pages.what_if(data, now, name, allowance)


def _pids(which: str, text: str) -> float | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError as error:
        raise HTTPException(400, f"{which} is {text[:20]!r}. Give a number of new producer ids") from error


def _hours(query: Mapping[str, str], allowed: tuple[float, ...], default: str = "24") -> float:
    spans = {f"{hours:g}": hours for hours in allowed}
    asked = query.get("hours") or default
    if asked not in spans:
        raise HTTPException(400, f"hours is {asked[:20]}. Choose one of {', '.join(spans)}")
    return spans[asked]


QUERIES: dict[str, _Page] = {
    "freshness": lambda data, now, _: data.freshness(now),
    "overview": lambda data, now, _: data.overview(now),
    "activity": lambda data, now, query: data.activity(now, _hours(query, OVERVIEW_SPANS_HOURS, "6")),
    "offenders": lambda data, now, _: data.offenders(now),
    "headroom": lambda data, now, _: data.headroom(now),
    "occupancy": lambda data, now, _: data.occupancy(now),
    "principal": _principal,
    "decisions": _history(ConsoleData.decisions),
    "holds": _history(ConsoleData.holds),
    "quotas": lambda data, now, _: quota_pages.quotas(data, now),
    "what-if": _what_if,
}
"""The functions that make the pages, by page name."""


@dataclass
class Answers:
    """A cache of answers. Equal requests at the same time share one query."""

    data: ConsoleData
    clock: Callable[[], datetime]
    fresh_s: float
    refresh_s: float
    kept: dict[str, tuple[float, bytes]] = field(default_factory=dict)
    locks: dict[str, threading.Lock] = field(default_factory=lambda: {name: threading.Lock() for name in QUERIES})

    def forget(self) -> None:
        """Forget all answers, because the tables have changed."""
        # A concurrent `get` still writes to the old dictionary.
        self.kept = {}

    def endpoint(self, name: str) -> Callable[[Request], Any]:
        """Return the handler of a page."""

        async def answer(request: Request) -> Response:
            body = await run_in_threadpool(self.get, name, dict(request.query_params))
            return Response(body, media_type="application/json")

        return answer

    def get(self, name: str, query: Mapping[str, str]) -> bytes:
        """Return a page as JSON."""
        key = json.dumps([name, sorted(query.items())])
        with self.locks[name]:
            kept = self.kept
            found = kept.get(key)
            if found is None or time.monotonic() - found[0] > self.fresh_s:
                page = QUERIES[name](self.data, self.clock(), query) | {"refresh_ms": round(1000 * self.refresh_s)}
                body = json.dumps(page, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
                found = (time.monotonic(), body)
                kept.pop(key, None)
                kept[key] = found
                for old in list(kept)[:-_ANSWERS]:
                    kept.pop(old, None)
        return found[1]

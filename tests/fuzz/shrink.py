"""Makes a failing history small."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from tests.fuzz.history import Batch, History, Record
from tests.fuzz.rules_oracle import Rules

Fails = Callable[[History], bool]
Changes = dict[str, Any]
PLAIN_BATCH: tuple[Changes, ...] = (
    *({"trouble": ""}, {"loses": ""}, {"plan": 0}, {"clock_ms": 1000}, {"next_pid": None}),
)
PLAIN_HISTORY: tuple[Changes, ...] = ({"buckets": 1}, {"salt": 0}, {"false_positive_rate": 1e-9})
PLAIN_RECORD: tuple[Changes, ...] = ({"style": 0}, {"joined": False}, {"ahead_ms": 5}, {"partition": 0})
PLAIN_EVENT: tuple[Changes, ...] = ({"learning": False}, {"broker": 1}, {"client": ""}, {"address": ""})


def shrunk(history: History, fails: Fails, most: int = 4000) -> History:
    """Return the smallest history found that still fails: each step tries to leave one thing out."""
    tried = 0
    improved = True
    while improved and tried < most:
        improved = False
        for smaller in _smaller(history):
            tried += 1
            if fails(smaller):
                history, improved = smaller, True
                break
            if tried >= most:
                break
    return history


def _smaller(history: History) -> Iterator[History]:
    batches = history.batches
    for size in _halves(len(batches)):
        for begin in range(0, len(batches), size):
            kept = batches[:begin] + batches[begin + size :]
            quotas = [each.quotas for each in batches[: begin + size] if each.quotas is not None]
            if kept and begin < len(kept) and quotas and kept[begin].quotas is None:
                kept = (*kept[:begin], replace(kept[begin], quotas=quotas[-1]), *kept[begin + 1 :])
            if kept:
                yield replace(history, batches=kept)
    for at, batch in enumerate(batches):
        for size in _halves(len(batch.records)):
            for begin in range(0, len(batch.records), size):
                records = batch.records[:begin] + batch.records[begin + size :]
                if records:
                    yield _with(history, at, replace(batch, records=records))
        for change in PLAIN_BATCH:
            if replace(batch, **change) != batch:
                yield _with(history, at, replace(batch, **change))
        if at and batch.quotas is not None:
            yield _with(history, at, replace(batch, quotas=None))
        held = batch.quotas or {}
        for name in held:
            yield _with(history, at, replace(batch, quotas={key: each for key, each in held.items() if key != name}))
    for at in range(len(batches) - 1):
        if batches[at + 1].quotas is None:
            joined = replace(batches[at], records=batches[at].records + batches[at + 1].records)
            yield replace(history, batches=(*batches[:at], joined, *batches[at + 2 :]))
    for change in PLAIN_HISTORY:
        if replace(history, **change) != history:
            yield replace(history, **change)
    for rules in _plainer(history.rules):
        yield replace(history, rules=rules)
    for at, batch in enumerate(batches):
        for number, record in enumerate(batch.records):
            for simpler in _simpler(record):
                records = (*batch.records[:number], simpler, *batch.records[number + 1 :])
                yield _with(history, at, replace(batch, records=records))


def _halves(size: int) -> Iterator[int]:
    while size > 0:
        yield size
        size //= 2


def _with(history: History, at: int, batch: Batch) -> History:
    return replace(history, batches=(*history.batches[:at], batch, *history.batches[at + 1 :]))


def _plainer(rules: Rules) -> Iterator[Rules]:
    plain = Rules()
    for each in fields(Rules):
        if getattr(rules, each.name) != getattr(plain, each.name):
            yield replace(rules, **{each.name: getattr(plain, each.name)})


def _simpler(record: Record) -> Iterator[Record]:
    if record.event is None:
        return
    for change in PLAIN_RECORD:
        if replace(record, **change) != record:
            yield replace(record, **change)
    event = record.event
    pids: list[Changes] = [{"pid": pid} for pid in range(5) if pid < event.pid]
    for change in (*PLAIN_EVENT, *pids):
        if replace(event, **change) != event:
            yield replace(record, event=replace(event, **change))

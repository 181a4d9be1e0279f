"""What the product said of a history against what the oracle says."""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

from streaming.operator.rows import Rows, by_kind
from tests.fuzz.history import Counts, History, QuotaEntry, quota_of, rate_and_burst
from tests.fuzz.rules_oracle import Decision, Lost, Oracle, Row, Said
from tests.fuzz.world import World

EXACT = 1e-6
DOZENS = 90
LISTED, SKETCHED = Fraction(1, 50), Fraction(1, 10)
"""Refused PIDs are counted by a sketch: exact in dozens, but for a union, beyond with a standard error of 3 %."""
COMMON_COLUMNS = ("tokens", "rate", "quota", "burst", "refused_pids")
DECISION_COLUMNS = ("action", "reason", "decided_at", "throttled_until", "throttle_time_ms", *COMMON_COLUMNS)
METRIC_COLUMNS = ("as_of", "admitted_pids", "owed_pids", "active_pids", "phase", *COMMON_COLUMNS)
BYTES_OF_COUNTS = 800
Key = str


def differences(history: History, counts: Counts | None = None) -> list[str]:
    """Return what differs, a line each; nothing if all is right."""
    if history.max_uncharged_bytes:
        return list(_beyond_bounds(history))
    if history.is_made_up:
        return list(_let_pass(history))
    world = World(history)
    world.run()
    oracle = Oracle(history.rules)
    quotas: dict[str, QuotaEntry] = {}
    for batch, lost in zip(history.batches, world.lost, strict=True):
        quotas = quotas if batch.quotas is None else batch.quotas
        events = batch.events()
        where = batch.homes()
        names = {event.principal for event in events} | set(oracle.ledgers)
        of_lost = Lost(lost, batch.next_pid) if lost else None
        oracle.batch(events, {name: quota_of(quotas, name) for name in names}, of_lost, batch.began_ms, where)
    expected, ids = oracle.said(), Ids()
    found: list[str] = []
    for stream in world.streams:
        how = f"{stream.buckets} buckets" if stream.buckets else "a state each"
        found += [f"[{how}] {line}" for line in _compare(expected, stream.said, world.bad, ids)]
    if counts:
        counts.events += history.events()
        counts.decisions += sum(len(said.decisions) for said, _ in expected.values())
        counts.rows += sum(len(said.rows) for said, _ in expected.values())
    return found


def _beyond_bounds(history: History) -> Iterator[str]:
    """Whatever comes uncharged, a ledger stays in its bounds: sketches of a kilobyte per quantum, and its filter."""
    world = World(history)
    world.run()
    most = history.max_uncharged_bytes + BYTES_OF_COUNTS * (history.rules.layer_count + 3)
    for stream in world.streams:
        rows = by_kind(stream.said)
        for row in rows["producer_id_metrics"]:
            if row["state_bytes"] > most:
                yield f"{row['principal']}: a ledger of {row['state_bytes']} bytes, at most {most} expected"
        if rows.get("throttle_decisions") and any(row["saturated"] for row in rows["producer_id_metrics"]):
            yield f"{rows['throttle_decisions'][0]['principal']}: throttled beyond the cap"


def _let_pass(history: History) -> Iterator[str]:
    """However PIDs were made up, a flood gets its bucket and one more: they do not pass for known ones."""
    world = World(history)
    world.run()
    (quota,) = (rate_and_burst(batch.quotas[""])[0] for batch in history.batches if batch.quotas)
    for stream in world.streams:
        last = by_kind(stream.said)["producer_id_metrics"][-1]
        admitted, refused = last["admitted_pids"], last["refused_pids"]
        if admitted != quota + 1 or abs(admitted + refused - history.events()) > history.events() / 20:
            yield f"of {history.events()} made-up PIDs {admitted} were admitted, {refused} refused"


class Ids:
    """The ids of decisions: one for each, and the same wherever it is taken."""

    def __init__(self) -> None:
        self._by_decision: dict[object, str] = {}
        self._by_id: dict[str, object] = {}

    def wrong(self, decision: object, decision_id: str) -> list[str]:
        other = self._by_decision.setdefault(decision, decision_id)
        of_other = self._by_id.setdefault(decision_id, decision)
        same, own = other == decision_id, of_other == decision
        return [] if same and own else [f"decision_id of {decision} is also {other}, and that of {of_other}"]


def _compare(expected: dict[Key, tuple[Said, Said]], said: Rows, bad: list[tuple[int, int]], ids: Ids) -> Iterator[str]:
    rows = by_kind(said)
    quarantined = sorted((row["partition"], row["offset"]) for row in rows.get("quarantined_events", []))
    if quarantined != sorted(bad):
        reasons = [row["reason"] for row in rows.get("quarantined_events", [])]
        yield f"quarantined {quarantined}, expected {sorted(bad)}: {reasons[:3]}"
    decisions = _by_key(rows.get("throttle_decisions", []))
    metrics = _by_key(rows.get("producer_id_metrics", []))
    for key in sorted({*decisions, *metrics, *expected}):
        if key not in expected:
            yield f"({key}): rows of a ledger that should not be there"
            continue
        here, last = expected[key]
        for line in (
            *_decisions(key, (here.decisions, last.decisions), decisions.get(key, []), ids),
            *_metrics(here.rows, last.rows, metrics.get(key, [])),
            *_late(here, metrics.get(key, [])),
        ):
            yield f"({key}): {line}"


def _by_key(rows: list[dict[str, Any]]) -> dict[Key, list[dict[str, Any]]]:
    found: dict[Key, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["principal"], []).append(row)
    return found


def _decisions(
    key: Key, said: tuple[list[Decision], list[Decision]], found: list[dict[str, Any]], ids: Ids
) -> Iterator[str]:
    expected, last = said
    # Whether what an idle ledger says last was said by now is a matter of when it was removed.
    if len(found) == len(expected) + len(last):
        expected = expected + last
    for number in range(max(len(expected), len(found))):
        if number >= len(found):
            yield f"decision {number} is missing: {expected[number]}"
            return
        row = found[number]
        if number >= len(expected):
            yield f"decision {number} is one too many: {row}"
            return
        wanted = expected[number]
        wrong = list(_differing(row, wanted, DECISION_COLUMNS))
        wrong += ids.wrong((key, number), row["decision_id"])
        if wanted.refused <= DOZENS:
            wrong += [
                f"{column} {row[column]!r}, expected {value!r}"
                for column, value in (("client_ids", wanted.client_ids), ("addresses", wanted.addresses))
                if row[column] != value
            ]
        if wrong:
            yield f"decision {number} ({wanted.action} at {wanted.decided_at}): {'; '.join(wrong)}"


def _metrics(expected: dict[int, Row], last: dict[int, Row], found: list[dict[str, Any]]) -> Iterator[str]:
    ends = {row["window_end"]: row for row in found}
    for end in sorted({*ends, *expected}):
        if end not in ends:
            yield f"no row of the interval that ends at {end}: {expected[end]}"
            continue
        row = ends[end]
        candidates = [each[end] for each in (expected, last) if end in each]
        if not candidates:
            yield f"a row of the interval that ends at {end}, expected none: {row}"
            continue
        wrongs = [_wrong(row, wanted) for wanted in candidates]
        if all(wrongs):
            yield f"last row of the interval that ends at {end}: {'; '.join(wrongs[0])}"


def _wrong(row: dict[str, Any], wanted: Row) -> list[str]:
    wrong = list(_differing(row, wanted, METRIC_COLUMNS))
    most = wanted.new_in_window * _share_off(wanted.new_in_window)
    if abs(row["new_pids_window"] - wanted.new_in_window) > max(Fraction(51, 100), most):
        wrong.append(f"new_pids_window {row['new_pids_window']}, expected {float(wanted.new_in_window)}")
    return wrong


def _late(said: Said, found: list[dict[str, Any]]) -> Iterator[str]:
    total = sum(row["late_pids"] for row in found)
    if total != len(said.late):
        yield f"late {total}, expected {len(said.late)}"


def _differing(row: dict[str, Any], wanted: Decision | Row, columns: Iterable[str]) -> Iterator[str]:
    for column in columns:
        value = getattr(wanted, column.removesuffix("_pids"))
        if not _alike(row[column], value, float(_share_off(value)) if column == "refused_pids" else EXACT):
            yield f"{column} {row[column]!r}, expected {_plain(value)!r}"


def _share_off(count: Fraction | int) -> Fraction:
    return SKETCHED if count > DOZENS else LISTED


def _alike(found: Any, wanted: Any, exact: float = EXACT) -> bool:
    if found is None or wanted is None or (isinstance(wanted, (str, int)) and exact == EXACT):
        return bool(found == wanted)
    return bool(abs(found - wanted) <= exact * max(1, abs(wanted)))


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Fraction) else value

"""The demo's closing text: who made producers, what the producers cost, what was done, and commands to try."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobs.output.text_tables import TextTable
from lifecycle.occupancy import BYTES_PER_ENTRY
from quota.typed import typed
from tables.store.values import Answer

if TYPE_CHECKING:
    from jobs.demo.demo_run import Result

DECISIONS = """
SELECT decided_at, principal, action, refused_pids, throttle_time_ms, throttled_until FROM throttle_decisions
ORDER BY decided_at
"""

_DAY_S = 86_400


def story(result: "Result", quota: float) -> Iterator[str]:
    """Yield the outcome as three lines of text."""
    alice, mallory, slowing = result.alice, result.mallory, result.slowing
    pace = mallory.producers / result.seconds if slowing is None else slowing.before()
    entries = pace * _DAY_S
    yield (
        f"Who: mallory made {mallory.producers} producers for {mallory.delivered} messages, "
        f"alice {alice.producers} for {alice.delivered}."
    )
    yield (
        f"What it cost: a broker remembers each producer for a day; at mallory's first pace, {pace:.1f} a second, that "
        f"comes to {round(entries, -3):,.0f} of them and {entries * BYTES_PER_ENTRY / 1e6:,.0f} MB of its memory."
    )
    over = f"mallory went over the quota of {quota:g} a minute"
    if slowing is None:
        yield f"What was done: {over}, and the traffic ended before the broker held her; alice was left alone."
    else:
        after = slowing.after(mallory.delivered, result.seconds)
        yield (
            f"What was done: {over}, and a hold on the broker left her {after:.1f} new producer ids a second; "
            "alice was left alone."
        )


def next_commands(program: str, tables: str) -> Iterator[str]:
    """Yield commands to try next."""
    for words in (("why", "User:mallory"), ("top",), ("sql", "--view", "top_offenders")):
        yield typed((program, *words, "--tables", tables))


def decisions_table(answer: Answer) -> TextTable:
    """Return the decisions as a table. A THROTTLE decision on a throttled principal shows as a renewal."""
    throttled: set[str] = set()
    rows = []
    for row in answer.records():
        principal, is_throttle = row["principal"], row["action"] == "THROTTLE"
        what = ("throttle renewed" if principal in throttled else "throttle") if is_throttle else "release"
        (throttled.add if is_throttle else throttled.discard)(principal)
        decided, until = (f"{row[name]:%H:%M:%S} UTC" for name in ("decided_at", "throttled_until"))
        rows.append((decided, principal, what, row["refused_pids"], until))
    columns = ("decided", "principal", "decision", "refused so far", "until")
    return TextTable(columns, rows, title="Decisions", right=("refused so far",))

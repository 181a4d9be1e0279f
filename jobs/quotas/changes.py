"""Differences between the table of quotas and a file."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jobs.output.human import plural
from quota.allowance import Allowance
from tables.quotas.quota_entry import QuotaEntry, entity_words

_SIGNS = {"add": "+", "change": "~", "remove": "-"}
_MAX_LINES = 10
"""Changes that people see one by one. `--json` has all of them."""


@dataclass(frozen=True)
class QuotaChange:
    """A change of a user's quota, or of the default quota if `entity_name` is None.

    `before` is None if the change adds the quota. `after` is None if the change removes the quota.
    """

    entity_name: str | None
    before: Allowance | None
    after: Allowance | None

    @property
    def action(self) -> str:
        """The kind of change: add, change or remove."""
        if self.before is None:
            return "add"
        return "remove" if self.after is None else "change"

    def line(self) -> str:
        """Return the change as a line of a diff."""
        numbers = " -> ".join(str(each) for each in (self.before, self.after) if each is not None)
        return f"{_SIGNS[self.action]} {entity_words(self.entity_name)}: {numbers}"

    def record(self) -> dict[str, Any]:
        """Return the change as JSON values."""
        sides = {"before": self.before, "after": self.after}
        rates = {side: each and each.producer_ids_rate for side, each in sides.items()}
        bursts = {f"{side}_burst": each and each.producer_ids_burst for side, each in sides.items()}
        return {"change": self.action, "entity_name": self.entity_name} | rates | bursts


@dataclass(frozen=True)
class ImportPlan:
    """The changes of an import.

    Attributes:
        unchanged: Number of quotas that are the same in the table and file.
        kept: Number of quotas that stay although the file lacks them.
    """

    changes: tuple[QuotaChange, ...]
    unchanged: int
    kept: int

    @classmethod
    def compare(
        cls, entries: Iterable[QuotaEntry], wanted: Mapping[str | None, Allowance], *, prune: bool
    ) -> "ImportPlan":
        """Compare the quotas in force (`entries`) and in a file (`wanted`). `prune` removes those not in the file."""
        before = {entry.entity_name: entry.allowance for entry in entries}
        names = sorted({**before, **wanted} if prune else wanted, key=lambda name: (name is not None, name or ""))
        every = [QuotaChange(name, before.get(name), wanted.get(name)) for name in names]
        changes = tuple(change for change in every if change.before != change.after)
        return cls(changes, len(every) - len(changes), 0 if prune else len(before.keys() - wanted.keys()))

    def record(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        changes = [change.record() for change in self.changes]
        return {"changes": changes, "unchanged": self.unchanged, "not_in_file": self.kept}

    def lines(self, *, dry_run: bool) -> Iterator[str]:
        """Yield the first changes, and a summary."""
        yield from (change.line() for change in self.changes[:_MAX_LINES])
        if len(self.changes) > _MAX_LINES:
            yield f"and {plural(len(self.changes) - _MAX_LINES, 'more change')}: see --json"
        counts = {action: sum(change.action == action for change in self.changes) for action in _SIGNS}
        words = (f"to {action}" if dry_run else action.removesuffix("e") + "ed" for action in counts)
        done = ", ".join(f"{count} {word}" for count, word in zip(counts.values(), words, strict=True))
        yield f"{'dry run, nothing is set: ' if dry_run else ''}{done}, {self.unchanged} unchanged"
        if self.kept:
            yield f"kept, although not in the file (see --prune): {plural(self.kept, 'quota')}"

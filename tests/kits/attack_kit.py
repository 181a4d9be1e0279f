"""A stream with a limit of principals, and checks that other principals keep their service."""

from dataclasses import dataclass

from tests.kits.spark_kit import stored_ledgers
from tests.kits.stream_kit import START_MS, Stream, event

BATCH_COLUMNS = {"batch_id", "state_bytes"}


@dataclass
class LimitedStream(Stream):
    """As `Stream`, with what it measured and what it said of some principals."""

    def run_measured(self) -> list[dict[str, int]]:
        """As `run`; returns records, milliseconds, rows and bytes of the state for each batch."""
        query = self._start("available-now")
        query.awaitTermination()
        return [
            {
                "records": progress.numInputRows,
                "batch_ms": progress.durationMs["triggerExecution"],
                "state_rows": progress.stateOperators[0].numRowsTotal,
                "state_bytes": progress.stateOperators[0].memoryUsedBytes,
            }
            for progress in query.recentProgress
        ]

    def said_of(self, *principals: str) -> list[dict[str, object]]:
        """All decisions and metrics of some principals, but for what depends on batches."""
        rows = [row for table in ("throttle_decisions", "producer_id_metrics") for row in self.rows(table)]
        found = [row for row in rows if row["principal"] in principals]
        plain = [{name: value for name, value in row.items() if name not in BATCH_COLUMNS} for row in found]
        return sorted(plain, key=lambda row: (str(row["principal"]), "action" not in row, str(row)))

    def state_rows(self) -> list[str]:
        return sorted(stored_ledgers(self.spark, self.root / "checkpoint"))


OTHERS = ("User:alice", "User:bob", "User:carol")


def others(batch: int) -> list[bytes]:
    """A batch of three principals: one steady, one growing slowly, one beyond its quota of 10."""
    at_ms = batch * 20_000
    steady = [event(pid, "User:alice", at_ms + pid) for pid in range(5)]
    growing = [event(1000 + batch, "User:bob", at_ms)]
    flooding = [event(2000 + 8 * batch + number, "User:carol", at_ms + number) for number in range(8)]
    return steady + growing + flooding


__all__ = ["OTHERS", "START_MS", "LimitedStream", "event", "others"]

"""The operator with a fake `GroupState`: Spark has no test double of its own for it."""

import json
from dataclasses import dataclass, field

import pandas as pd
import pyarrow as pa

from quota.config import QuotaConfig
from state.events import Deployment
from streaming.operator import operate
from streaming.table_specs import TABLES
from streaming.tally import tally_events

NOW_MS = 1_790_000_000_000
DEPLOYMENT = Deployment(QuotaConfig(), salt=5)


@dataclass
class FakeGroupState:
    """What the operator uses of `pyspark.sql.streaming.state.GroupState`."""

    value: tuple[bytes] | None = None
    updates: list[tuple[bytes]] = field(default_factory=list)

    @property
    def exists(self) -> bool:
        return self.value is not None

    @property
    def get(self) -> tuple[bytes]:
        assert self.value is not None
        return self.value

    def update(self, value: tuple[bytes]) -> None:
        self.value = value
        self.updates.append(value)


def frame(pids: list[int], quota: float | None = 10.0, at_ms: int = 0) -> pd.DataFrame:
    size = len(pids)
    events = pa.table(
        {
            "timestamp_ms": pa.array([NOW_MS + at_ms] * size, pa.int64()),
            "principal": ["User:a"] * size,
            "producer_id": pa.array(pids, pa.int64()),
            "client_id": ["app"] * size,
            "correction": [False] * size,
            "partition": pa.array([0] * size, pa.int32()),
            "offset": pa.array(range(size), pa.int64()),
        }
    )
    ((_, packed),) = tally_events(events, DEPLOYMENT.config.quantum_ms)
    source = "none" if quota is None else "user"
    return pd.DataFrame({"packed": [packed], "quota": [quota], "quota_source": [source], "quota_updated_ms": [NOW_MS]})


def run(state: FakeGroupState, rows: pd.DataFrame, principal: str = "User:a") -> list[tuple[str, dict[str, object]]]:
    output = operate(DEPLOYMENT, frozenset({"User:super"}), (principal,), iter([rows]), state)
    return [(kind, json.loads(body)) for part in output for kind, body in zip(part["kind"], part["body"], strict=True)]


def test_rows_have_exactly_the_columns_of_their_tables() -> None:
    rows = dict(run(FakeGroupState(), frame(list(range(50)))))

    assert set(rows) == {"throttle_decisions", "producer_id_metrics"}
    for table, body in rows.items():
        columns = set(TABLES[table].schema.names) - {"batch_id"}
        assert set(body) == columns


def test_state_is_not_written_when_nothing_changed() -> None:
    state = FakeGroupState()
    run(state, frame([1]))

    assert run(state, frame([1], at_ms=500)) == []
    assert len(state.updates) == 1


def test_a_principal_that_is_never_enforced_is_reported_without_a_quota() -> None:
    ((kind, row),) = run(FakeGroupState(), frame(list(range(50))), principal="User:super")

    assert (kind, row["quota_source"], row["admitted_pids"]) == ("producer_id_metrics", "none", 50)


def test_a_lost_ledger_is_quarantined_and_its_principal_learns_again_instead_of_being_punished() -> None:
    state = FakeGroupState((b"PQL\x01 damaged beyond repair",))

    rows = run(state, frame(list(range(500))))
    later = run(state, frame(list(range(500)), at_ms=DEPLOYMENT.config.window_ms + 1000))

    assert [kind for kind, _ in rows] == ["quarantined_events", "producer_id_metrics"]
    assert str(rows[0][1]["reason"]).startswith("ledger of User:a lost: ")
    assert rows[1][1]["phase"] == "learning"
    assert [kind for kind, _ in later] == ["producer_id_metrics"]

"""Measures `pid-quota demo`: the seconds from the first request for a producer id until the first decision."""

import tempfile
from pathlib import Path

from deltalake import DeltaTable

from bench.kit import PID_QUOTA, Found, completed, decided_s, figure

RUNS, TRAFFIC_S, LIMIT_S = 3, 20, 300.0


def measure(share: float) -> Found:
    found = list[float]()
    for _ in range(max(1, round(share * RUNS))):
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder, "demo")
            options = ("--seconds", str(TRAFFIC_S), "--no-stay", "--data", str(data))
            completed(*PID_QUOTA, "demo", *options, limit_s=LIMIT_S)
            asked = DeltaTable(data / "tables" / "producer_inits").to_pyarrow_table()["answered_at"].to_pylist()
            found.append(min(decided_s(data).values()) - min(asked).timestamp())
    return {"figures": {"demo_first_decision_s": figure(found)}}

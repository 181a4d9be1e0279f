"""Measures `pid-quota demo`: the seconds from the first message until the first decision."""

import re
import tempfile

from bench.kit import PID_QUOTA, Found, completed, figure

RUNS, TRAFFIC_S, LIMIT_S = 3, 20, 300.0


def measure(share: float) -> Found:
    found = list[float]()
    for _ in range(max(1, round(share * RUNS))):
        with tempfile.TemporaryDirectory() as folder:
            options = ("--seconds", str(TRAFFIC_S), "--no-stay", "--json", "--data", f"{folder}/demo")
            said = completed(*PID_QUOTA, "demo", *options, limit_s=LIMIT_S)
        found += map(float, re.findall(r'"first_decision_s": ([\d.]+)', said))
    return {"figures": {"demo_first_decision_s": figure(found)}}

"""Peers read the output of the product's pre-aggregation."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest

from bench import peers, throughput
from wire.packed_events import PackedEvents, pack

ROOT = Path(__file__).parents[3]


def pre_aggregate(partition: int, pids: list[int], times_ms: list[int]) -> bytes:
    offsets, clients, kinds = (np.zeros(len(pids), np.int64).tobytes() for _ in range(3))
    of_events = (np.array(pids, np.int64).tobytes(), np.array(times_ms, np.int64).tobytes())
    return pack(PackedEvents(partition, offsets, *of_events, clients, kinds, []))


def test_the_exact_set_counts_the_pids_of_all_pre_aggregates_of_a_group_once() -> None:
    stored: list[Any] = []
    state: Any = SimpleNamespace(exists=True, get=(msgspec.msgpack.encode({7: 1000}),), update=stored.append)
    parts = [pre_aggregate(0, [7, 8], [2000, 2001]), pre_aggregate(1, [8, 9], [2002, 1999])]

    (counted,) = peers.remember(("User:alice",), iter([pd.DataFrame({"packed": parts})]), state)

    assert counted.to_dict("records") == [{"principal": "User:alice", "new_pids": 2, "newest_ms": 2002}]
    assert msgspec.msgpack.decode(stored[0][0], type=dict[int, int]) == {7: 2000, 8: 2002, 9: 2002}


@pytest.mark.slow
def test_every_variant_reads_a_load_to_its_end() -> None:
    load = ("--principals", "20", "--events", "20000", "--batch", "5000", "--rounds", "1")
    command = [sys.executable, "bench/throughput.py", *load]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    (found,) = json.loads(done.stdout.splitlines()[-1])["loads"]
    assert set(found["variants"]) == set(throughput.VARIANTS)
    assert all(each["events_per_second"]["median"] > 0 for each in found["variants"].values())

"""The exact set of `bench/peers.py`."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pandas as pd

from bench import peers


def test_the_exact_set_yields_each_new_pid_of_all_frames_once() -> None:
    stored: list[Any] = []
    state: Any = SimpleNamespace(exists=True, get=(msgspec.msgpack.encode({7: 1000}),), update=stored.append)
    frames = [pd.DataFrame({"producer_id": pids, "at_ms": [2000, 2001]}) for pids in ([7, 8], [8, 9])]

    (new,) = peers.remember(("User:alice",), iter(frames), state)

    assert new["principal"].tolist() == ["User:alice", "User:alice"]
    assert msgspec.msgpack.decode(stored[0][0], type=dict[int, int]) == {7: 2000, 8: 2000, 9: 2001}

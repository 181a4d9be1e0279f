"""The exact set of `bench/peers.py`."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pandas as pd
from pyspark import cloudpickle

from bench import peers


def test_the_exact_set_yields_each_new_pid_of_all_frames_once() -> None:
    stored: list[Any] = []
    state: Any = SimpleNamespace(exists=True, get=(msgspec.msgpack.encode({7: 1000}),), update=stored.append)
    frames = [pd.DataFrame({"producer_id": pids, "at_ms": [2000, 2001]}) for pids in ([7, 8], [8, 9])]

    (new,) = peers.remember(("User:alice",), iter(frames), state)

    assert new["principal"].tolist() == ["User:alice", "User:alice"]
    assert msgspec.msgpack.decode(stored[0][0], type=dict[int, int]) == {7: 2000, 8: 2000, 9: 2001}


def test_spark_can_pickle_the_exact_set_of_a_child_process() -> None:
    # given that the module is the program of the process, so its functions are pickled by value
    cloudpickle.register_pickle_by_value(peers)
    try:
        assert cloudpickle.dumps(peers.remember)
    finally:
        cloudpickle.unregister_pickle_by_value(peers)

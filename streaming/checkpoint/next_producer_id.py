"""The cluster's next producer id, as far as the plugins have reported it: the lowest PID that is not handed out yet.

If PIDs are forgotten, the stream learns only PIDs below it. The query of the reports stores it for the main query.
"""

from pathlib import Path

from streaming.checkpoint.own_files import read_json, write_json

FILE = "pid-quota-next-producer-id.json"


def load_next_producer_id(checkpoint: str) -> int | None:
    """Return the next producer id; None if no plugin has reported it.

    Raises:
        CheckpointDamagedError: If it can't be read.
    """
    return read_json(Path(checkpoint) / FILE, int, "delete it: the next report of a plugin writes it again")


def save_next_producer_id(checkpoint: str, next_producer_id: int | None) -> None:
    """Store a reported next producer id, unless a higher one is stored. PIDs are handed out in ascending order.

    Raises:
        CheckpointError: If it can't be written.
    """
    known = load_next_producer_id(checkpoint)
    if next_producer_id is not None and (known is None or known < next_producer_id):
        write_json(Path(checkpoint) / FILE, next_producer_id)

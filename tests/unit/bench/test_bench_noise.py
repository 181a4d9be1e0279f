"""What the meter sees of a machine."""

import subprocess
import sys
import time

from noise import Meter, below

BURN = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass"


def test_a_child_that_has_ended_was_ours() -> None:
    with Meter() as meter:
        subprocess.run([sys.executable, "-c", BURN.format(1.5)], check=True)

    ticks = sum(each.last - each.first for each in meter.seen.values())
    assert ticks >= 50
    assert meter.spark_seconds == 0


def test_what_was_spent_before_does_not_count() -> None:
    begin = time.process_time()
    while time.process_time() < begin + 1:
        pass
    with Meter() as meter:
        pass

    assert sum(each.last - each.first for each in meter.seen.values()) < 50


def test_descendants_are_found_whatever_their_order() -> None:
    stats = {1: (0, "", 0), 5: (1, "", 0), 3: (5, "", 0), 4: (1, "", 0), 9: (3, "", 0)}

    assert below({5}, stats) == {5, 3, 9}

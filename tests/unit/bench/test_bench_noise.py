"""The meter of CPU time and other load."""

import subprocess
import sys
import uuid

from bench.noise import Meter, grouped

BURN = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass"


def test_an_ended_child_counts_in_the_group_that_its_command_line_names() -> None:
    # given a group whose text no other child of the test's process has, such as a session that an earlier test left
    mark = uuid.uuid4().hex

    with Meter({"marked": mark}) as meter:
        subprocess.run([sys.executable, "-c", BURN.format(1.5)], check=True)
        subprocess.run([sys.executable, "-c", BURN.format(1.5), mark], check=True)

    # then the half second between two samples may be missing from each
    assert 0.5 <= meter.seconds("marked") <= meter.seconds() - 0.5


def test_a_process_belongs_to_the_group_of_its_parent() -> None:
    # given a driver (5) with its JVM (3), a worker (4) with an executor (9), and a stranger (7)
    stats = {each: (parent, "", 0) for each, parent in {1: 0, 5: 1, 3: 5, 9: 4, 4: 1, 7: 0}.items()}
    lines = {5: "python -m jobs.stream", 4: "java Worker"}

    found = grouped(1, stats, {"driver": "jobs.stream", "workers": "Worker"}, lambda pid: lines.get(pid, ""))

    assert found == {1: "", 5: "driver", 3: "driver", 4: "workers", 9: "workers"}

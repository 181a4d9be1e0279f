"""Child processes: their lines, their ends, and orphans."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.run.children import ChildProcess, Command
from tests.kits.process_kit import left_of
from tests.kits.run_kit import LIMIT_S


def run(code: str, *, take: Callable[[str], None] = lambda _: None, **variables: str) -> ChildProcess:
    return ChildProcess(Command(("-c", code), {**os.environ, **variables}), take)


def end_of(child: ChildProcess) -> int:
    give_up_at = time.monotonic() + LIMIT_S
    while (code := child.exit_code()) is None:
        assert time.monotonic() < give_up_at
        time.sleep(0.05)
    return code


def test_a_child_prints_lines_and_its_last_error_is_kept_apart() -> None:
    lines = list[str]()
    child = run(
        "import sys; print('a'); print('error: b'); print('c'); print('error: d'); sys.exit(2)", take=lines.append
    )
    assert end_of(child) == 2
    assert lines == ["a", "error: b", "c"]
    assert child.error() == "d"


def test_a_panic_of_a_library_is_one_line_and_hides_no_other() -> None:
    panic = [
        "",
        "thread 'tokio-rt-worker' (2239) panicked at /x/object_store-0.13.2/src/buffered.rs:369:41:",
        "Already shut down",
        "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace",
    ]
    text = "\n".join(["before", *panic, "between", *panic[:3], "error: No space left on device", ""])
    lines = list[str]()
    child = run(f"import sys; sys.stderr.write({text!r}); sys.exit(1)", take=lines.append)
    assert end_of(child) == 1
    assert lines == [
        "before",
        "a library has failed: Already shut down",
        "between",
        "a library has failed: Already shut down",
    ]
    assert child.error() == "No space left on device"


def test_a_child_on_a_host_without_room_for_a_thread_is_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"

    def refuse(_: object) -> None:
        msg = "can't start new thread"
        raise RuntimeError(msg)

    monkeypatch.setattr("threading.Thread.start", refuse)
    with pytest.raises(OSError, match="can't start new thread"):
        run("import time; time.sleep(600)", MARK=mark)
    assert left_of(mark) == []


def test_a_child_that_prints_without_end_never_waits_for_a_reader() -> None:
    size = [0]

    def take(line: str) -> None:
        size[0] += len(line)

    child = run("import sys; sys.stdout.write('x' * 50_000_000)", take=take)
    assert end_of(child) == 0
    assert size[0] < 20_000


def test_an_end_is_told_after_the_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    # However busy the machine is.
    monkeypatch.setattr("jobs.run.children._REST_S", LIMIT_S)
    lines = list[str]()

    def take(line: str) -> None:
        time.sleep(0.2)
        lines.append(line)

    child = run("print('a'); print('b'); print('c')", take=take)
    assert end_of(child) == 0
    assert lines == ["a", "b", "c"]


def test_children_of_a_child_end_with_it(tmp_path: Path) -> None:
    mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    grandchild = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    code = (
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {grandchild!r}]); print('begun', flush=True)"
    )
    child = run(code, MARK=mark)
    assert end_of(child) == 0
    assert left_of(mark) == []


def test_a_stopped_child_ends_when_it_is_asked_to() -> None:
    lines = list[str]()
    child = run("import time; print('begun', flush=True); time.sleep(600)", take=lines.append)
    while not lines:
        time.sleep(0.02)
    os.kill(child.pid, 19)
    child.terminate()
    assert end_of(child) == -15


def test_a_child_gets_only_its_own_variables_and_the_socket_that_is_handed_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MARK_OF_PARENT", "1")
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_server(("127.0.0.1", 0)) as other:
        lines = list[str]()
        code = (
            "import os, socket, sys\n"
            "print(sorted(each for each in os.environ if each.startswith('MARK')))\n"
            "print(socket.socket(fileno=int(os.environ['MARK_FD'])).getsockname()[1])\n"
            f"print(os.path.exists('/dev/fd/{other.fileno()}'))\n"
        )
        variables = {"MARK_FD": str(listener.fileno())}
        child = ChildProcess(Command(("-c", code), variables, (listener.fileno(),)), lines.append)
        assert end_of(child) == 0
        assert lines == ["['MARK_FD']", str(listener.getsockname()[1]), "False"]


REAPER = """
import ctypes, os, subprocess, sys, time
from jobs.run.children import reap_orphans
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # orphans come to this process, as to the first of a container
own = subprocess.Popen([sys.executable, "-c", "import sys; sys.exit(7)"])
parent = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'pass']).pid)"
orphan = int(subprocess.run([sys.executable, "-c", parent], stdout=subprocess.PIPE).stdout)
while os.path.exists(f"/proc/{orphan}"):
    if own.returncode is None:
        own.poll()
    reap_orphans(frozenset({own.pid}))
    time.sleep(0.02)
print(own.wait())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="orphans come to a process only here")
def test_orphans_are_reaped_and_the_exit_codes_of_own_children_are_not_taken() -> None:
    done = subprocess.run(
        [sys.executable, "-c", REAPER], stdout=subprocess.PIPE, timeout=LIMIT_S, check=True, text=True
    )
    assert done.stdout == "7\n"


ENDED = """
import os, subprocess, sys
from jobs.run.children import reap_orphans
own = subprocess.Popen([sys.executable, "-c", "import sys; sys.exit(7)"])
os.waitid(os.P_PID, own.pid, os.WEXITED | os.WNOWAIT)
reap_orphans(frozenset({own.pid}))
print(own.wait())
"""


def test_the_exit_code_of_an_own_child_that_has_just_ended_is_left_to_its_starter() -> None:
    done = subprocess.run([sys.executable, "-c", ENDED], stdout=subprocess.PIPE, timeout=LIMIT_S, check=True, text=True)
    assert done.stdout == "7\n"

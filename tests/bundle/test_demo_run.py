"""The demo as users run it: a real broker, real producers, and `pid-quota run` with its console.

`PID_QUOTA_SCREENSHOTS=docs/img` renews the README's picture, which takes a minute longer.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from jobs.demo.demo_folder import MARKER
from tests.kits import browser_kit
from tests.kits.console_kit import Found
from tests.kits.process_kit import left_of

WISHED = Path(wish).resolve() if (wish := os.environ.get("PID_QUOTA_SCREENSHOTS")) else None
MALLORYS_PAGE = "#/principal?name=User%3Amallory&hours=0.1"


@pytest.fixture
def environment(jars: Path, tmp_path: Path) -> dict[str, str]:
    # By this folder in their environment the demo's processes are found, also Spark's JVM before it knows any other.
    (tmp_path / "tmp").mkdir()
    return {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PID_QUOTA_JARS": str(jars)}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "jobs", *map(str, arguments)]


def until(condition: Callable[[], Found | None], reader: threading.Thread, wanted_s: float = 200) -> Found | None:
    """Wait for a condition, as long as the demo's lines are still coming."""
    end = time.monotonic() + wanted_s
    while time.monotonic() < end and reader.is_alive():
        found = condition()
        if found:
            return found
        time.sleep(0.3)
    return condition()


def take_picture(address: str, profile: Path, folder: Path) -> None:
    with browser_kit.chromium(profile) as browser:
        browser.look()
        browser.open(f"{address}{MALLORYS_PAGE}")
        browser.picture(folder / "demo-mallory.png")


def require_story(text: str) -> None:
    """Check the closing text, the next commands, and that all decisions in the table differ."""
    for said in (
        "first decision",
        "Who: mallory made",
        "Type next:",
        "User:alice",
        "User:mallory",
        "`pid-quota run` starts",
    ):
        assert said in text
    then = re.search(r"mallory's first pace, (\S+) a second", text)
    now = re.search(r"left her (\S+) new producer ids a second", text)
    assert then, text
    assert now, text
    assert float(now[1]) < float(then[1]) / 2
    last_table = text.split("Decisions", 1)[1].split("Who:", 1)[0].strip().splitlines()
    assert len(set(last_table)) == len(last_table) > 1


@pytest.mark.slow
def test_mallory_is_throttled_and_alice_is_not_and_the_console_shows_it(
    environment: dict[str, str], tmp_path: Path
) -> None:
    demo = command("demo", "--seconds", 110 if WISHED else 75, "--data", "demo-data")
    environment |= {"PYTHONUNBUFFERED": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    # The console names the folder: a short name in the pictures.
    with subprocess.Popen(
        demo,
        env=environment,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout
        assert running.stderr
        lines = [running.stdout.readline()]
        while lines[-1] and "watch it in a browser" not in lines[-1]:
            lines.append(running.stdout.readline())
        # The address answers from now on.
        found = re.search(r"http://127\.0\.0\.1:\d+/", lines[-1])
        assert found, lines
        address = found[0]
        reader = threading.Thread(target=lines.extend, args=[running.stdout])
        reader.start()
        with httpx2.Client(base_url=address, timeout=60) as browser:
            assert "<title>pid-quota</title>" in browser.get("/").text
            asked = {"name": "User:mallory", "hours": "0.1"}
            assert browser.get("/api/principal", params=asked).json()["now_row"] is None

            def told() -> dict[str, Any] | None:
                page = browser.get("/api/principal", params=asked).json()
                is_over = any((new or 0) > 20 for new in page["timeline"]["new_pids_window"])
                is_held = bool(page["hold"] and page["hold"]["confirmed_brokers"])
                is_known = any(row["text"].startswith("likely producer per message") for row in page["churn"])
                return page if is_over and is_held and is_known else None

            page = until(told, reader)
            if WISHED:
                until(lambda: re.search(r"\] (9|1\d)\d s of traffic", lines[-1]), reader)
                take_picture(address, tmp_path / "profile", WISHED)
        err = running.stderr.read()
        reader.join()
        running.wait(60)

    said_in_all = "".join(lines)
    assert (running.returncode, err) == (0, ""), said_in_all
    assert page, said_in_all
    line = page["timeline"]["new_pids_window"]
    assert (line[0], page["now_row"]["quota"]) == (0, 20), line
    assert page["now_row"]["new_pids_window"] > 20
    assert page["throttles"]
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(address)
    require_story(said_in_all)
    assert left_of(tmp_path) == []
    assert not list((tmp_path / "tmp").glob("pid-quota-demo-*"))

    query = "SELECT principal, action, refused_pids, throttle_time_ms FROM throttle_decisions"
    sql = command("sql", "--json", "--tables", tmp_path / "demo-data" / "tables", query)
    decisions = json.loads(subprocess.run(sql, capture_output=True, text=True, check=True).stdout)
    assert {row["principal"] for row in decisions} == {"User:mallory"}
    assert decisions[0]["action"] == "THROTTLE"
    assert decisions[0]["refused_pids"] >= 1
    assert (tmp_path / "demo-data" / MARKER).is_file()


@pytest.mark.parametrize(
    ("said", "after_s"), [("starting", 0), ("starting", 1), ("starting", 3), ("run` starts", 0), ("run` starts", 5)]
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_half_way_it_leaves_no_process(
    environment: dict[str, str], tmp_path: Path, number: signal.Signals, said: str, after_s: float
) -> None:
    demo = command("demo", "--data", tmp_path / "demo-data")
    with subprocess.Popen(
        demo, env=environment, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout
        for line in running.stdout:
            if said in line:
                break
        time.sleep(after_s)
        # A terminal sends Ctrl-C to the whole group, `kill` to one process.
        (os.killpg if number == signal.SIGINT else os.kill)(running.pid, number)
        _, err = running.communicate(timeout=240)

    assert left_of(tmp_path) == []
    assert (running.returncode, err) == (130, "error: interrupted\n")


def test_a_child_that_fails_stops_the_demo_with_its_words(environment: dict[str, str], tmp_path: Path) -> None:
    # Only Spark's launcher reads this variable.
    demo = command("demo", "--data", tmp_path / "demo-data")
    environment["SPARK_LAUNCHER_OPTS"] = "--no-such-option"
    done = subprocess.run(demo, env=environment, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 1
    assert "the stream ended with exit code" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "all logs are in" in done.stdout
    assert left_of(tmp_path) == []

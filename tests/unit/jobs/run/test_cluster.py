"""What `run` does and says while brokers are away, or load no plugin."""

import io
import json
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from jobs.errors import WrongSettingError
from jobs.output.terminal import WRONG_SETTING
from jobs.run import cluster_look
from jobs.run.children import Command
from jobs.run.cluster_look import ClusterLook
from jobs.run.log import RunLog
from jobs.run.look import Found
from jobs.run.settings import RunSettings
from jobs.services.steady_clock import SteadyClock
from tests.kits.run_kit import LIMIT_S


class Looks:
    """Looks whose outcomes the test chooses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self._answer = ""
        monkeypatch.setattr("jobs.run.commands.look", lambda _: Command(("-c", self._answer), {}))
        monkeypatch.setattr(cluster_look, "_PATIENCE_S", 0.0)
        self._output = io.StringIO()
        self._log = RunLog("text", self._output)
        self.clock = SteadyClock()
        self.look = ClusterLook(RunSettings(bootstrap_server="h:1", data=folder), self._log, self.clock)

    def find(self, found: Found) -> str:
        return self._run(f"print({json.dumps(asdict(found))!r})")

    def fail(self, message: str, code: int) -> str:
        return self._run(f"import sys; print('error: {message}', file=sys.stderr); sys.exit({code})")

    def said(self) -> list[str]:
        self._log.close()
        return [each.partition("Z ")[2] for each in self._output.getvalue().splitlines()]

    def _run(self, answer: str) -> str:
        """Look once, and return the state."""
        self._answer = answer
        self.look.task.run_again()
        give_up_at = time.monotonic() + LIMIT_S
        has_run = False
        while not has_run or self.look.task.pid:
            assert time.monotonic() < give_up_at
            self.look.turn(self.clock.tick(), is_wanted=True)
            has_run = has_run or self.look.task.pid is not None
            time.sleep(0.01)
        return self.look.state


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Looks:
    return Looks(monkeypatch, tmp_path)


AWAY = Found(unreachable="no Kafka broker answers at h:1 (refused): check that it runs")
BARE = Found(no_plugin="there is no topic produce-events that this user may see")
READY = Found(plugins={"1": "0.1.0"})


def test_brokers_that_are_away_are_named_once(looks: Looks) -> None:
    assert [looks.find(each) for each in (AWAY, AWAY, READY)] == ["away", "away", "ready"]
    looks.look.look_again()
    assert looks.look.state == "unknown"
    assert looks.find(AWAY) == "away"
    assert looks.said() == [
        f"{AWAY.unreachable}; it tries again",
        "the brokers answer",
        f"{AWAY.unreachable}; it tries again",
    ]


def test_brokers_that_come_back_without_topics_are_told_once_and_get_their_time(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given brokers that had no topics for long, and went away
    monkeypatch.setattr(cluster_look, "_PATIENCE_S", 1e6)
    assert [looks.find(each) for each in (BARE, AWAY)] == ["unknown", "away"]
    looks.clock.now_s += 2e6

    # when they answer, and still lack topics
    assert [looks.find(each) for each in (BARE, BARE, BARE, READY)] == ["unknown", "unknown", "unknown", "ready"]
    assert looks.said() == [f"{AWAY.unreachable}; it tries again", "the brokers answer"]


def test_a_wrong_setting_ends_all_at_the_start_and_is_tried_again_later(looks: Looks) -> None:
    with pytest.raises(WrongSettingError, match=r"^it is wrong$"):
        looks.fail("it is wrong", WRONG_SETTING)
    assert looks.find(READY) == "ready"
    looks.look.look_again()
    assert looks.fail("it is wrong", WRONG_SETTING) == "away"
    assert looks.said() == ["it is wrong; it tries again"]


def test_a_login_that_brokers_refuse_is_told_once_even_if_they_were_away_and_tried_again(looks: Looks) -> None:
    refused = "the login is refused"
    assert [looks.find(AWAY), looks.fail(refused, 1), looks.fail(refused, 1), looks.find(READY)][-2:] == [
        "away",
        "ready",
    ]
    assert looks.said() == [f"{AWAY.unreachable}; it tries again", f"{refused}; it tries again", "the brokers answer"]

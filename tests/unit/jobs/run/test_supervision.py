"""Which children of `run` run when, and what a changed file, an end or an error does to them."""

import io
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import JobError, WrongSettingError
from jobs.output.terminal import WRONG_SETTING
from jobs.run import supervision
from jobs.run.folder import own_folder
from jobs.run.log import RunLog
from jobs.run.look import Found
from jobs.run.probes import Health, get
from jobs.run.settings import RunSettings, scratch_of
from jobs.run.supervision import Supervision, supervise
from jobs.services.listening import LOOPBACK, Address, listening
from tests.kits.child_kit import Children, FakeProber, HandClock

LOOK = "jobs.run.look"
READY, BARE = Found(plugins={"1": "0.1.0"}), Found(no_plugin="there is no topic")
AWAY = Found(unreachable="no Kafka broker answers at h:1")


class Bench:
    """A supervision whose children are none."""

    def __init__(self, children: Children, settings: RunSettings, stack: ExitStack, clock: HandClock) -> None:
        self.children, self.clock, self.settings = children, clock, settings
        self._output = io.StringIO()
        self._log = RunLog("text", self._output)
        console, stream = (stack.enter_context(closing(listening(LOOPBACK, 0))) for _ in range(2))
        self.run = Supervision(settings, self._log, console, stream)

    def turn(self, seconds: float = 1.0) -> None:
        self.clock.pass_s(seconds)
        self.run.turn()

    def find(self, found: Found) -> None:
        self.children[LOOK].end(0, json.dumps(asdict(found)))
        self.turn()

    def end(self, name: str, code: int = 0, *lines: str, error: str = "") -> None:
        """Let a child end."""
        self.children[name].end(code, *lines, error=error)
        self.turn()

    def begin(self, found: Found = READY) -> None:
        """Go to where all is prepared, and brokers were looked for."""
        self.turn()
        self.end("tables")
        if self.settings.quotas_file:
            self.end("quotas")
        self.find(found)
        self.turn()

    def prober(self, name: str) -> FakeProber:
        """The prober of the newest process of a part."""
        parts = [each.name for each in self.children.started if each.name in ("stream", "console")]
        return self.children.probers[len(parts) - 1 - parts[::-1].index(name)]

    def answer(self, *names: str, unready: str = "") -> None:
        for each in names:
            self.prober(each).health = Health(self.clock.now_s, "", unready)

    def said(self) -> list[str]:
        self._log.close()
        return self._output.getvalue().splitlines()


@pytest.fixture
def settings(tmp_path: Path) -> RunSettings:
    names = ("client.properties", "password", "token", "quotas.yaml")
    config, password, token, quotas = (tmp_path / name for name in names)
    for each in (config, password, token, quotas):
        each.write_text("before")
    return RunSettings(
        bootstrap_server="h:1",
        data=tmp_path / "data",
        kafka_config=config,
        kafka_password_file=password,
        console_token_file=token,
        quotas_file=quotas,
    )


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, children: Children, settings: RunSettings) -> Iterator[Bench]:
    clock = HandClock()
    monkeypatch.setattr(supervision, "SteadyClock", lambda: clock)
    with ExitStack() as stack:
        yield Bench(children, settings, stack, clock)


def test_tables_and_quotas_come_before_all_others_and_the_stream_after_the_brokers(bench: Bench) -> None:
    bench.turn()
    assert bench.children.running() == {"tables", LOOK}
    assert bench.run.unready().split("; ") == [
        "tables: being prepared",
        "quotas: being prepared",
        "stream: it looks for the brokers",
        "console: it does not run",
    ]
    bench.end("tables")
    bench.turn()
    assert bench.children.running() == {"quotas", LOOK}
    bench.end("quotas")
    bench.turn()
    assert bench.children.running() == {"console", LOOK}
    bench.find(READY)
    bench.turn()
    assert bench.children.running() == {"console", "stream"}
    assert bench.run.unready() == "stream: it starts; console: it starts"
    bench.answer("stream", "console")
    assert bench.run.unready() == ""


def test_brokers_that_are_away_start_no_stream_and_are_the_reason(bench: Bench) -> None:
    bench.begin(AWAY)
    bench.answer("console")
    assert "stream" not in bench.children.running()
    assert bench.run.unready() == f"stream: {AWAY.unreachable}"


@pytest.mark.parametrize(("code", "again_s"), [(0, 5), (WRONG_SETTING, 30)])
def test_brokers_that_are_away_are_looked_for_until_they_answer(bench: Bench, code: int, again_s: int) -> None:
    # given brokers that answered once, so that a refused login is no wrong setting any more
    bench.begin()
    bench.end("stream", 1)
    bench.turn()
    for looks in (3, 4):
        bench.end(LOOK, code, json.dumps(asdict(AWAY)), error="the login is refused" if code else "")
        bench.turn(again_s - 2)
        assert bench.children.count(LOOK) == looks - 1
        bench.turn(2)
        assert bench.children.count(LOOK) == looks

    # when they answer again
    bench.find(READY)
    bench.turn()
    assert bench.children.count("stream") == 2


def test_brokers_that_have_just_started_have_half_a_minute_to_load_their_plugin(bench: Bench) -> None:
    bench.begin(BARE)
    for _ in range(3):
        assert "stream: it waits for the brokers' plugin (there is no topic)" in bench.run.unready()
        bench.turn(5)
        bench.find(BARE)
    assert bench.children.count("occupancy") == 0
    bench.turn(30)
    bench.find(BARE)
    assert bench.children.count("occupancy") == 1
    (line,) = bench.said()
    assert "the brokers load no plugin (there is no topic)" in line


def test_a_census_is_taken_only_of_brokers_without_a_plugin(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.run.cluster_look._PATIENCE_S", 0.0)
    bench.begin(BARE)
    bench.answer("console")
    assert bench.children.running() == {"console", "occupancy"}
    assert bench.run.unready() == ""

    # when the brokers load it
    bench.clock.pass_s(60)
    bench.answer("console")
    bench.turn()
    bench.find(READY)
    bench.turn()
    assert bench.children["occupancy"].asked == ["terminate"]
    assert "stream" in bench.children.running()


def test_a_stream_that_ends_is_started_again_after_a_new_look_in_an_empty_folder(bench: Bench) -> None:
    bench.begin()
    bench.answer("stream", "console")
    left = scratch_of(bench.settings, "stream") / "spark-1"
    left.mkdir(parents=True)
    looks = bench.children.count(LOOK)
    bench.end("stream", 1)
    bench.turn(2)
    assert bench.children.count(LOOK) == looks + 1
    assert bench.children.count("stream") == 1
    assert bench.run.unready() == "stream: it looks for the brokers"
    bench.find(READY)
    bench.turn()
    assert bench.children.count("stream") == 2
    assert not left.exists()


FILES = {
    "kafka_config": {"stream"},
    "kafka_password_file": {"stream"},
    "console_token_file": set[str](),
    "quotas_file": set[str](),
}


@pytest.mark.parametrize("name", FILES)
def test_a_changed_file_restarts_only_what_reads_it(bench: Bench, name: str) -> None:
    bench.begin()
    bench.answer("stream", "console")
    file: Any = getattr(bench.settings, name)
    file.write_text("after")
    bench.turn(2)
    bench.turn()
    asked = {each.name for each in bench.children.started if each.asked}
    assert asked == FILES[name]
    assert bench.children.count("quotas") == (2 if name == "quotas_file" else 1)


def test_a_file_that_is_gone_and_back_is_told_once_and_changes_nothing(bench: Bench) -> None:
    bench.begin()
    bench.answer("stream", "console")
    file = bench.settings.quotas_file
    assert file
    content = file.read_text()
    file.unlink()
    for _ in range(3):
        bench.turn(2)
    file.write_text(content)
    bench.turn(2)
    assert bench.children.count("quotas") == 1
    assert [each.partition("Z ")[2] for each in bench.said()] == [
        f"--quotas-file {file} can't be read (No such file or directory): what was read before stays in force",
        f"--quotas-file {file} can be read again",
    ]


def test_a_changed_password_ends_the_pause_between_looks(bench: Bench) -> None:
    # given brokers that refuse the login
    bench.begin(AWAY)
    bench.clock.pass_s(5)
    bench.turn()
    bench.end(LOOK, 1, error="the brokers refuse the login of user 'alice'")
    looks = bench.children.count(LOOK)
    bench.turn(2)
    assert bench.children.count(LOOK) == looks

    # when the password changes
    assert bench.settings.kafka_password_file
    bench.settings.kafka_password_file.write_text("after")
    bench.turn(2)
    assert bench.children.count(LOOK) == looks + 1


def test_changed_quotas_are_told_and_a_bad_file_once_while_the_others_go_on(bench: Bench) -> None:
    bench.begin()
    for change, code, lines, error in (
        ("1", 0, ["alice: 5 an hour"], ""),
        ("2", 1, [], "entry 1 has no rate"),
        ("3", WRONG_SETTING, [], "entry 1 has no rate"),
        ("4", 0, [], ""),
        ("5", 1, [], "entry 1 has no rate"),
    ):
        assert bench.settings.quotas_file
        bench.settings.quotas_file.write_text(change)
        bench.turn(2)
        bench.turn(2)
        bench.end("quotas", code, *lines, error=error)
    assert bench.children.running() == {"stream", "console"}
    bad = "quotas   | entry 1 has no rate; the quotas in force stay"
    assert bench.said() == ["quotas   | alice: 5 an hour", bad, bad]


@pytest.mark.parametrize(("code", "error"), [(WRONG_SETTING, WrongSettingError), (1, JobError)])
@pytest.mark.parametrize("name", ["tables", "quotas"])
def test_what_can_t_be_prepared_at_the_start_ends_all(
    bench: Bench, name: str, code: int, error: type[Exception]
) -> None:
    bench.turn()
    if name == "quotas":
        bench.end("tables")
    with pytest.raises(error, match=r"^it is wrong$"):
        bench.end(name, code, error="it is wrong")
    assert "console" not in bench.children.running()


def test_a_supervision_that_does_not_turn_is_unwell_whatever_its_parts_say(bench: Bench) -> None:
    bench.turn()
    bench.clock.stand_still(60)
    assert bench.run.unwell() == ""
    bench.clock.stand_still(1)
    assert bench.run.unwell() == "the supervision has not turned for 61 s"
    bench.turn()
    assert bench.run.unwell() == ""


def test_the_end_asks_all_children_and_starts_none(bench: Bench) -> None:
    bench.begin()
    bench.turn(120)
    running = [each for each in bench.children.started if each.code is None]
    assert {each.name for each in running} == {"stream", "console", "maintain"}
    started = len(bench.children.started)
    for each in running:
        each.obeys = True
    bench.run.end()
    assert {tuple(each.asked) for each in running} == {("terminate",)}
    assert len(bench.children.started) == started


def test_the_end_kills_children_that_do_not_end_in_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.begin()
    bench.turn(120)
    monkeypatch.setattr(supervision, "_END_S", 0.1)
    running = [each for each in bench.children.started if each.code is None]
    bench.run.end()
    assert [each.asked[:2] for each in running] == [["terminate", "kill"]] * 3


def test_a_wrong_setting_of_a_part_ends_all_and_frees_the_folder(
    children: Children, settings: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "_END_S", 0.1)
    of_run = replace(settings, console=(LOOPBACK, 0), metrics=(LOOPBACK, 0))
    probes = dict[str, tuple[int, str]]()

    def begun(_console: Address, metrics: Address) -> None:
        probes.update({each: get(metrics, each) for each in ("/healthz", "/readyz")})
        with pytest.raises(JobError, match="another `pid-quota run`"), own_folder(of_run):
            pass

    children.fails["tables"] = (WRONG_SETTING, "it is wrong")
    with pytest.raises(WrongSettingError, match=r"^it is wrong$"):
        supervise(of_run, RunLog("text", io.StringIO()), threading.Event(), begun)
    assert probes["/healthz"] == (200, "ok\n")
    assert probes["/readyz"][0] == 503
    assert "tables: being prepared" in probes["/readyz"][1]
    assert children[LOOK].asked[:2] == ["terminate", "kill"]
    with own_folder(of_run):
        pass

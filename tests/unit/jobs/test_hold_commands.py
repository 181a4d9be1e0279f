"""The options of `pid-quota release`, `hold` and `stream --enforce`, and what the commands say."""

from pathlib import Path
from typing import Any

import pytest
import typer

from broker.enforcement import by_hand
from broker.enforcement.by_hand import Obeyed
from broker.enforcement.model import Limits
from jobs.enforcement.command import milliseconds
from jobs.stream import running
from tests.kits.command_kit import PidQuota, printed
from wire.holds import EVERYBODY, MAX_HOLD_MS, MAX_RELEASE_MS

SERVERS = ("--bootstrap-server", "kafka:9092")
MINUTE_MS = 60_000


@pytest.mark.parametrize(
    ("text", "ms"), [("90s", 90_000), ("10m", 600_000), (" 1h ", 3_600_000), ("7d", MAX_RELEASE_MS)]
)
def test_a_duration_is_a_number_and_a_unit(text: str, ms: int) -> None:
    assert milliseconds(text, MAX_RELEASE_MS) == ms


@pytest.mark.parametrize("text", ["", "10", "0m", "-1m", "1.5h", "1w", "1h30m", "\u0661m", "m", "1 h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is no duration: write a number and s, m, h or d, such as 30m"):
        milliseconds(text, MAX_RELEASE_MS)


def test_a_duration_that_brokers_would_ignore_is_refused() -> None:
    assert milliseconds("10m", MAX_HOLD_MS) == MAX_HOLD_MS
    with pytest.raises(typer.BadParameter, match=r"--for 601s is longer than .*, the longest time that brokers accept"):
        milliseconds("601s", MAX_HOLD_MS)


class Hand:
    """What the commands ask `by_hand` for, and what it answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, str, int]] = []
        self.error: Exception | None = None
        self.obeyed = Obeyed([1, 2], ["User:bob"])
        for name in ("release", "hold"):
            monkeypatch.setattr(by_hand, name, self._answer(name))

    def _answer(self, name: str) -> Any:
        def answer(config: dict[str, str], principal: str, ms: int, by: str) -> Obeyed:
            assert config["bootstrap.servers"] == "kafka:9092"
            assert "@" in by
            self.asked.append((name, principal, ms))
            if self.error:
                raise self.error
            return self.obeyed

        return answer


@pytest.fixture
def hand(monkeypatch: pytest.MonkeyPatch) -> Hand:
    return Hand(monkeypatch)


def test_a_release_says_who_obeys_and_who_is_still_held(pid_quota: PidQuota, hand: Hand) -> None:
    said = printed(pid_quota("release", "User:mallory", "--for", "30m", *SERVERS))
    assert said == "User:mallory is released for 30 min, confirmed by broker 1, 2. On hold now: User:bob\n"
    printed(pid_quota("release", "--all", *SERVERS))
    assert hand.asked == [("release", "User:mallory", 30 * MINUTE_MS), ("release", EVERYBODY, 60 * MINUTE_MS)]


def test_a_hold_says_who_obeys(pid_quota: PidQuota, hand: Hand) -> None:
    hand.obeyed = Obeyed([3], [])
    said = printed(pid_quota("hold", "User:mallory", "--for", "2m", *SERVERS))
    assert said == "User:mallory is on hold for 2 min, confirmed by broker 3. On hold now: nobody\n"
    assert hand.asked == [("hold", "User:mallory", 2 * MINUTE_MS)]


@pytest.mark.parametrize(
    "arguments",
    [
        ("release",),
        ("release", "User:a", "--all"),
        ("release", "User:a", "--for", "8d"),
        ("hold", "User:a", "--for", "11m"),
        ("hold", "Group:x"),
    ],
    ids=" ".join,
)
def test_a_wrong_command_asks_nobody(pid_quota: PidQuota, hand: Hand, arguments: tuple[str, ...]) -> None:
    code, out, error = pid_quota(*arguments, *SERVERS)
    assert (code, out, hand.asked) == (2, "", [])
    assert error


def stream(pid_quota: PidQuota, folder: Path, *arguments: str) -> tuple[int, str, str]:
    places = ("--tables", folder / "tables", "--checkpoint", folder / "checkpoint")
    return pid_quota("stream", *SERVERS, *places, *arguments)


@pytest.mark.parametrize("name", ["Group:x", "mm2;CN=etl", "User:a,User:b"])
def test_never_takes_one_principal_each(pid_quota: PidQuota, tmp_path: Path, name: str) -> None:
    code, _, error = stream(pid_quota, tmp_path, "--never", "User:etl", "--never", name)
    assert code == 2
    assert name in error
    assert [*tmp_path.iterdir()] == []


def test_a_stream_that_ends_by_itself_does_not_enforce(pid_quota: PidQuota, tmp_path: Path) -> None:
    code, _, error = stream(pid_quota, tmp_path, "--enforce", "--trigger", "available-now")
    assert code == 2
    assert "--enforce holds while the stream runs" in error


def test_the_stream_never_holds_its_own_user_nor_those_of_never(
    pid_quota: PidQuota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Limits] = []
    monkeypatch.setattr(running, "run_stream", lambda kafka, options, launch: found.append(launch.limits))
    settings = tmp_path / "client.properties"
    settings.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=stream\nsasl.password=x\n"
    )
    more = ("--enforce", "--never", "User:etl", "--max-held", "3", "--command-config", settings)
    code, _, error = stream(pid_quota, tmp_path, *map(str, more))
    assert code == 0, error
    assert found == [Limits(enforce=True, never=frozenset({"User:etl", "User:stream"}), max_held=3)]

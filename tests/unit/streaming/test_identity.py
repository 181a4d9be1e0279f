import json
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest

from quota.config import QuotaConfig
from state.events import Deployment, Scope
from streaming import pipeline
from streaming.batch import batch_ends, tracked_principals
from streaming.batch.batch_ends import BatchEnd
from streaming.batch.event_times import EventTimes
from streaming.batch.tracked_principals import TrackedPrincipals
from streaming.checkpoint.data_loss import LOSS_FILE, LossRecord
from streaming.checkpoint.identity import (
    CHECKPOINT_FORMAT,
    DEFAULT_STATE_BUCKETS,
    IDENTITY_FILE,
    CheckpointOptions,
    StreamIdentity,
    load_or_create,
)
from streaming.checkpoint.spark_files import newest_batch
from streaming.commit.sinks import Commit
from streaming.errors import CheckpointDamagedError, CheckpointError
from streaming.operator.ledger_group import StoredLedger
from streaming.pipeline import deployment_of, learning_requests
from tests.kits.batch_kit import stream_options
from wire.records import LearningRequest


def identity_of(
    checkpoint: str, config: QuotaConfig, scope: Scope, learn_until_ms: int, state_buckets: int | None = None
) -> StreamIdentity:
    return load_or_create(CheckpointOptions(checkpoint, config, scope, learn_until_ms, state_buckets))


@pytest.mark.parametrize(
    ("lost_until_ms", "learns"),
    [(0, (5_000_000, 3_000)), (4_000_000, (5_000_000, 400_000)), (9_000_000, (9_000_000, 5_400_000))],
)
def test_a_stream_learns_from_its_first_start_and_again_after_lost_records(
    tmp_path: Path, lost_until_ms: int, learns: tuple[int, int]
) -> None:
    options = stream_options(str(tmp_path), learn_until_ms=5_000_000, learn_from_ms=3_000)
    load_or_create(options.of_checkpoint)
    if lost_until_ms:
        (tmp_path / LOSS_FILE).write_bytes(msgspec.json.encode(LossRecord(learn_until_ms=lost_until_ms)))

    # As a restart finds it, whatever it is asked for.
    restarted = replace(options, learn_until_ms=1, learn_from_ms=1)
    deployment = deployment_of(load_or_create(restarted.of_checkpoint), restarted)

    assert (deployment.learn_until_ms, deployment.learn_from_ms) == learns


class Requests(list[tuple[str, LearningRequest]]):
    """Takes the requests to the taps."""

    def write(self, stream: str, request: LearningRequest) -> None:
        self.append((stream, request))


@pytest.mark.parametrize(
    ("from_ms", "until_ms", "at_start"),
    [(7_000, 2**53, [7_000]), (7_000, 8_000, []), (0, 2**53, [])],
    ids=["it learns", "it has learned", "it read all records there ever were"],
)
def test_a_stream_requests_when_it_starts_to_learn_and_whenever_it_loses_ledgers(
    from_ms: int, until_ms: int, at_start: list[int]
) -> None:
    config, said = QuotaConfig(), Requests()
    options = stream_options(config=config, request_learning=said.write)
    identity = Mock(StreamIdentity, stream_id="stream")

    request = learning_requests(Deployment(config, 1, until_ms, "cluster", from_ms), identity, options)
    assert request is not None
    request(9_000)

    assert said == [("stream", LearningRequest(at, at + config.window_ms)) for at in (*at_start, 9_000)]


def test_a_lost_ledger_of_a_started_stream_becomes_a_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, commits = Requests(), list[Commit]()
    options = stream_options(str(tmp_path), request_learning=said.write)
    # Given a stream without Spark.
    for name in ("open_sink", "loss_detector", "read_records", "pre_aggregate_records", "apply_rules", "quotas_of"):
        monkeypatch.setattr(pipeline, name, Mock())
    identity = load_or_create(options.of_checkpoint)
    monkeypatch.setattr(pipeline, "open_identity", Mock(return_value=identity))
    monkeypatch.setattr(pipeline, "write", lambda _output, _options, commit: commits.append(commit))

    pipeline.start(Mock(), options)
    (commit,) = commits
    assert commit.on_learning is not None
    commit.on_learning(9_000)

    assert said == [(identity.stream_id, LearningRequest(9_000, 9_000 + options.config.window_ms))]


def test_a_restart_keeps_name_salt_and_learning_time_of_the_first_start(tmp_path: Path) -> None:
    first = identity_of(str(tmp_path / "new"), QuotaConfig(), "cluster", learn_until_ms=5000)

    assert identity_of(str(tmp_path / "new"), QuotaConfig(), "cluster", learn_until_ms=9000) == first
    assert first.learn_until_ms == 5000


def test_two_checkpoints_have_names_and_salts_of_their_own(tmp_path: Path) -> None:
    one = identity_of(str(tmp_path / "one"), QuotaConfig(), "cluster", 0)
    other = identity_of(str(tmp_path / "other"), QuotaConfig(), "cluster", 0)

    assert one.stream_id != other.stream_id
    assert one.salt != other.salt


@pytest.mark.parametrize(
    ("config", "scope", "said"),
    [
        (QuotaConfig(window_seconds=60), "cluster", "window_seconds=3600, but this start sets 60: keep 3600 or use"),
        (QuotaConfig(layer_count=5), "cluster", "layer_count=4, but this start sets 5"),
        (QuotaConfig(window_num=6), "cluster", "window_num=11, but this start sets 6"),
        (QuotaConfig(), "broker", "scope=cluster, but this start sets broker"),
    ],
)
def test_a_setting_the_state_depends_on_cannot_change_under_a_checkpoint(
    tmp_path: Path, config: QuotaConfig, scope: Scope, said: str
) -> None:
    identity_of(str(tmp_path), QuotaConfig(), "cluster", 0)

    with pytest.raises(CheckpointError, match=f"has {said}"):
        identity_of(str(tmp_path), config, scope, 0)


def test_state_buckets_are_those_of_the_checkpoint_unless_others_are_asked_for(tmp_path: Path) -> None:
    new, each = str(tmp_path / "new"), str(tmp_path / "each")
    assert identity_of(new, QuotaConfig(), "cluster", 0).state_buckets == DEFAULT_STATE_BUCKETS
    assert identity_of(each, QuotaConfig(), "cluster", 0, state_buckets=0).state_buckets == 0

    assert identity_of(each, QuotaConfig(), "cluster", 0).state_buckets == 0
    with pytest.raises(CheckpointError, match="has state_buckets=24, but this start sets 0"):
        identity_of(new, QuotaConfig(), "cluster", 0, state_buckets=0)


def test_a_checkpoint_whose_identity_is_missing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text("{}")

    with pytest.raises(CheckpointError, match=f"has no {IDENTITY_FILE}"):
        identity_of(str(tmp_path), QuotaConfig(), "cluster", 0)


@pytest.mark.parametrize("content", ["", "[]", json.dumps({"stream_id": "x"})])
def test_a_damaged_identity_is_refused_with_its_name_and_a_remedy(tmp_path: Path, content: str) -> None:
    (tmp_path / IDENTITY_FILE).write_text(content)

    with pytest.raises(
        CheckpointError, match=rf"{IDENTITY_FILE} can't be read .*: restore it from a backup, or start with"
    ):
        identity_of(str(tmp_path), QuotaConfig(), "cluster", 0)


@pytest.mark.parametrize("content", ["", '{"id":'])
def test_damaged_metadata_of_spark_is_refused_with_its_name_and_a_remedy(tmp_path: Path, content: str) -> None:
    (tmp_path / "metadata").write_text(content)

    with pytest.raises(CheckpointDamagedError, match="/metadata, Spark's own file, is damaged: restore it"):
        newest_batch(str(tmp_path))


def test_before_the_first_batch_nothing_but_the_source_says_where_to_begin(tmp_path: Path) -> None:
    (tmp_path / "sources/0").mkdir(parents=True)
    (tmp_path / "sources/0/0").write_text("")

    with pytest.raises(CheckpointDamagedError, match=r"sources/0/0.*: restore it from a backup"):
        newest_batch(str(tmp_path))


def test_a_checkpoint_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(CheckpointError, match="give a folder that this user can write to"):
        identity_of(str(tmp_path / "file" / "checkpoint"), QuotaConfig(), "cluster", 0)


@pytest.mark.parametrize("other", [CHECKPOINT_FORMAT - 1, CHECKPOINT_FORMAT + 1])
def test_a_checkpoint_of_another_format_is_refused_with_both_numbers_and_left_alone(tmp_path: Path, other: int) -> None:
    identity = identity_of(str(tmp_path), QuotaConfig(), "cluster", 0)
    file = tmp_path / IDENTITY_FILE
    file.write_bytes(msgspec.json.encode(replace(identity, format=other)))
    before = file.read_bytes()
    refused = rf"has format {other}, this release of pid-quota reads {CHECKPOINT_FORMAT}: .*--new-checkpoint"
    with pytest.raises(CheckpointError, match=refused):
        identity_of(str(tmp_path), QuotaConfig(), "cluster", 0)
    assert (file.read_bytes(), [*tmp_path.iterdir()]) == (before, [file])


def test_a_checkpoint_that_does_not_name_its_format_has_the_first(tmp_path: Path) -> None:
    written = json.loads(msgspec.json.encode(identity_of(str(tmp_path), QuotaConfig(), "cluster", 0)))
    del written["format"]
    (tmp_path / IDENTITY_FILE).write_text(json.dumps(written))
    assert identity_of(str(tmp_path), QuotaConfig(), "cluster", 0).format == 1


def test_whoever_changes_a_file_of_the_checkpoint_gives_it_another_format() -> None:
    files = {
        IDENTITY_FILE: StreamIdentity,
        LOSS_FILE: LossRecord,
        batch_ends.FOLDER: BatchEnd,
        tracked_principals.FOLDER: TrackedPrincipals,
        "event times": EventTimes,
        "state": StoredLedger,
    }
    found = {name: " ".join(kind.__annotations__) for name, kind in files.items()}
    assert (CHECKPOINT_FORMAT, found) == (
        1,
        {
            "pid-quota.json": "stream_id salt learn_until_ms learn_from_ms window_seconds layer_count window_num scope "
            "state_buckets starting_offsets format",
            "pid-quota-losses.json": "topic_id learn_until_ms losses",
            "pid-quota-batch-ends": "tracked event_times written",
            "pid-quota-principals": "codes overflowed_ms",
            "event times": "max_event_time_ms",
            "state": "forget_ms partition content throttled_until_ms",
        },
    )

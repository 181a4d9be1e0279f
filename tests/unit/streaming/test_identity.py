from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from quota.config import QuotaConfig
from streaming.batch.context import FOLDER, BatchContext, Carried
from streaming.batch.tracked_principals import TrackedPrincipals
from streaming.checkpoint.data_loss import LOSS_FILE, LossRecord
from streaming.checkpoint.identity import (
    CHECKPOINT_FORMAT,
    IDENTITY_FILE,
    CheckpointOptions,
    StreamIdentity,
    load_or_create,
)
from streaming.checkpoint.next_producer_id import load_next_producer_id, save_next_producer_id
from streaming.checkpoint.spark_files import newest_batch
from streaming.errors import CheckpointDamagedError, CheckpointError
from streaming.operator.ledger_group import StoredLedger
from streaming.pipeline import deployment_of
from tests.kits.batch_kit import stream_options


def identity_of(checkpoint: str, config: QuotaConfig, learn_until_ms: int = 0) -> StreamIdentity:
    return load_or_create(CheckpointOptions(checkpoint, config, learn_until_ms))


@pytest.mark.parametrize(
    ("lost", "learns"),
    [
        (LossRecord(), (5_000_000, 3_000)),
        (LossRecord(learn_until_ms=4_000_000, learn_below=9_000), (5_000_000, 3_000)),
        (LossRecord(learn_until_ms=9_000_000, learn_below=9_000), (9_000_000, 9_000)),
        (LossRecord(learn_until_ms=9_000_000), (9_000_000, None)),
    ],
)
def test_a_stream_learns_from_its_first_start_and_again_after_lost_records(
    tmp_path: Path, lost: LossRecord, learns: tuple[int, int | None]
) -> None:
    options = stream_options(str(tmp_path), learn_until_ms=5_000_000, learn_below=3_000)
    load_or_create(options.of_checkpoint)
    (tmp_path / LOSS_FILE).write_bytes(msgspec.json.encode(lost))

    # As a restart finds it, whatever it is asked for.
    restarted = replace(options, learn_until_ms=1, learn_below=1)
    deployment = deployment_of(load_or_create(restarted.of_checkpoint), restarted)

    assert (deployment.learn_until_ms, deployment.learn_below) == learns


@pytest.mark.parametrize(
    ("reported", "known"),
    [((), None), ((None,), None), ((4000,), 4000), ((4000, 3000, None), 4000), ((3000, 4000), 4000), ((0,), 0)],
)
def test_the_highest_next_producer_id_that_was_reported_is_kept(
    tmp_path: Path, reported: tuple[int | None, ...], known: int | None
) -> None:
    for each in reported:
        save_next_producer_id(str(tmp_path), each)

    assert load_next_producer_id(str(tmp_path)) == known


def test_the_window_cannot_change_under_a_checkpoint(tmp_path: Path) -> None:
    identity_of(str(tmp_path), QuotaConfig())

    with pytest.raises(CheckpointError, match="has window_seconds=3600, but this start sets 60: keep 3600 or use"):
        identity_of(str(tmp_path), QuotaConfig(window_seconds=60))


def test_a_checkpoint_whose_identity_is_missing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text("{}")

    with pytest.raises(CheckpointError, match=f"has no {IDENTITY_FILE}"):
        identity_of(str(tmp_path), QuotaConfig())


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
        identity_of(str(tmp_path / "file" / "checkpoint"), QuotaConfig())


@pytest.mark.parametrize("other", [CHECKPOINT_FORMAT - 1, CHECKPOINT_FORMAT + 1])
def test_a_checkpoint_of_another_format_is_refused_with_both_numbers_and_left_alone(tmp_path: Path, other: int) -> None:
    identity = identity_of(str(tmp_path), QuotaConfig())
    file = tmp_path / IDENTITY_FILE
    file.write_bytes(msgspec.json.encode(replace(identity, format=other)))
    before = file.read_bytes()
    refused = rf"has format {other}, this release of pid-quota reads {CHECKPOINT_FORMAT}: .*--new-checkpoint"
    with pytest.raises(CheckpointError, match=refused):
        identity_of(str(tmp_path), QuotaConfig())
    assert (file.read_bytes(), [*tmp_path.iterdir()]) == (before, [file])


def test_whoever_changes_a_file_of_the_checkpoint_gives_it_another_format() -> None:
    files = {
        IDENTITY_FILE: StreamIdentity,
        LOSS_FILE: LossRecord,
        FOLDER: BatchContext,
        "carried": Carried,
        "tracked": TrackedPrincipals,
        "state": StoredLedger,
    }
    found = {name: " ".join(kind.__annotations__) for name, kind in files.items()}
    assert (CHECKPOINT_FORMAT, found) == (
        3,
        {
            "pid-quota.json": "stream_id salt learn_until_ms learn_below window_seconds starting_offsets format",
            "pid-quota-losses.json": "topic_id learn_until_ms learn_below losses",
            "pid-quota-batches": "begin_ms starts ends quotas next_producer_id before after",
            "carried": "tracked event_times written",
            "tracked": "codes overflowed_ms",
            "state": "forget_ms partition content throttled_until_ms uses",
        },
    )

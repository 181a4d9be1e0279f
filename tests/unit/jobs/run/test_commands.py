"""What `run` tells the stream of a checkpoint that is gone."""

from pathlib import Path

import pytest

from jobs.run import commands
from jobs.run.settings import RunSettings


@pytest.mark.parametrize(
    ("files", "resumes"),
    [
        ([], False),
        (["tables/producer_id_metrics/_delta_log/0.json"], False),
        (["tables/producer_id_metrics/part-0.parquet"], True),
        (["tables/producer_id_metrics/principal_hash=1/part-0.parquet"], True),
        (["tables/producer_id_metrics/part-0.parquet", "checkpoint/offsets/0"], False),
    ],
)
def test_a_stream_resumes_where_rows_end_only_if_its_checkpoint_is_gone(
    tmp_path: Path, files: list[str], resumes: bool
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "checkpoint").mkdir(exist_ok=True)
    settings = RunSettings(bootstrap_server="kafka:9092", data=tmp_path)
    assert ("--new-checkpoint" in commands.stream(settings, 3).arguments) is resumes

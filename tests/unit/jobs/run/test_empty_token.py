"""A console whose token file says nothing, as the Secret of docs/kubernetes/pid-quota.yaml: `run` makes a token."""

from pathlib import Path

import pytest

from jobs.run.folder import own_folder
from jobs.run.settings import RunSettings


def settings(data: Path, text: str) -> RunSettings:
    file = data / "given"
    file.write_text(text)
    return RunSettings(bootstrap_server="h:1", data=data, console=("::", 0), console_token_file=file)


@pytest.mark.parametrize("text", ["", "\n", "  \n" + "s" * 40])
def test_a_file_without_a_token_in_its_first_line_gives_none(tmp_path: Path, text: str) -> None:
    of_run = settings(tmp_path, text)
    with own_folder(of_run) as found:
        assert found.console_token_file == of_run.own_token_file
        assert len(of_run.own_token_file.read_text().strip()) > 30


# The console itself refuses one that is too short.
@pytest.mark.parametrize("text", ["s" * 40, "short"])
def test_a_file_with_a_token_is_used(tmp_path: Path, text: str) -> None:
    of_run = settings(tmp_path, text)
    with own_folder(of_run) as found:
        assert found.console_token_file == of_run.console_token_file
        assert not of_run.own_token_file.exists()

"""Which extra a command asks for when a module is missing."""

from importlib.machinery import ModuleSpec

import pytest

from jobs.output.terminal import missing_extra


@pytest.mark.parametrize(
    ("command", "pyspark", "extra"),
    [
        ("stream", False, "local"),
        ("demo", False, "local"),
        ("stream", True, "tables"),
        ("sql", False, "tables"),
        ("sql", True, "tables"),
    ],
)
def test_commands_on_spark_ask_for_spark_too_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, command: str, pyspark: bool, extra: str
) -> None:
    found = ModuleSpec("pyspark", None) if pyspark else None
    monkeypatch.setattr("jobs.output.terminal.importlib.util.find_spec", lambda _: found)
    error = ModuleNotFoundError(name="pyarrow.dataset")
    said = f"this command needs pyarrow, which is not installed: pip install 'pid-quota[{extra}]'"
    assert missing_extra(error, [command, "--tables", "./t"]) == said


@pytest.mark.parametrize(
    "error", [ModuleNotFoundError("no name"), ModuleNotFoundError(name="jobs.x"), ImportError(name="duckdb")]
)
def test_other_errors_ask_for_none(error: ImportError) -> None:
    assert missing_extra(error, ["sql"]) == ""

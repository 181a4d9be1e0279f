"""`pid-quota tables check`: tries each right that the jobs need in a workspace, from inside."""

from pathlib import Path
from typing import Annotated

import typer

from jobs.errors import JobError
from jobs.options import CsvOption, JsonOption, TablesOption
from jobs.output.tables_out import form, show
from jobs.output.terminal import OUR_ERRORS
from streaming.databricks import secret_lines
from tables.store.open import open_store
from tables.store.rights import Right
from tables.store.values import Answer

_FILE = ".pid-quota-check"


def check(
    tables: TablesOption,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder of the stream's checkpoint, such as /Volumes/… .", show_default=False)
    ] = None,
    kafka_secret: Annotated[
        str | None, typer.Option(help="Databricks secret with the Kafka client's settings, as scope/key.")
    ] = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Try each right that the jobs need in a catalog, and say what grants the missing ones."""
    wanted = form(as_json=as_json, as_csv=as_csv)
    with open_store(tables) as store:
        rights = store.rights()
        if checkpoint is not None:
            rights.append(_writing(checkpoint))
        if kafka_secret is not None:
            remedy = f"databricks secrets put-acl {kafka_secret.partition('/')[0]} WHO READ"
            remedy += "; databricks bundle run put-secret < FILE"
            rights.append(Right(f"read the secret {kafka_secret}", lambda: secret_lines(kafka_secret), remedy))
        found = [(right.name, *_tried(right)) for right in rights]
    show(Answer(("right", "ok", "error", "remedy"), tuple(found)), wanted)
    missing = sum(not is_ok for _, is_ok, _, _ in found)
    if missing:
        msg = f"{missing} of {len(found)} rights are missing. WHO is whom the job runs as"
        raise JobError(msg)


def _tried(right: Right) -> tuple[bool, str, str]:
    try:
        right.attempt()
    except (*OUR_ERRORS, OSError) as error:
        return False, str(error), right.remedy
    return True, "", ""


def _writing(folder: Path) -> Right:
    def attempt() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / _FILE
        file.write_text("pid-quota tried to write here\n", encoding="utf-8")
        file.unlink()

    return Right(f"write to {folder}", attempt, "GRANT READ VOLUME, WRITE VOLUME ON VOLUME … TO WHO")

"""The demo's folder, which is the `--data` of its `pid-quota run`."""

import shutil
from pathlib import Path

from jobs.errors import JobError
from jobs.run.folder import own_folder
from jobs.run.settings import RunSettings

MARKER = ".made-by-pid-quota-demo"
"""The file that marks a demo's folder. The demo never replaces a folder without this file."""


def prepare_folder(folder: Path) -> None:
    """Create an empty folder, or replace the folder of an earlier demo that has ended."""
    try:
        if folder.is_dir() and any(folder.iterdir()):
            if not (folder / MARKER).is_file():
                msg = f"{folder} is not empty and was not made by the demo. Choose another folder with --data"
                raise JobError(msg)
            with own_folder(RunSettings(bootstrap_server="", data=folder)):
                shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARKER).write_text("`pid-quota demo` made this folder and will replace it.\n", encoding="utf-8")
    except OSError as error:
        msg = f"--data {folder} is not writable ({error.strerror}). Choose another folder with --data"
        raise JobError(msg) from error

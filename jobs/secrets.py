"""Secret options: from an environment variable or a file, since `ps` shows arguments to everybody."""

from pathlib import Path

import typer


def one_secret(value: str | None, file: Path | None, option: str) -> str | None:
    """Return a secret given as a value or in a file; None if neither is given.

    Args:
        value: From the command line or the environment.
        file: A file with the secret in its first line.
        option: Name of the value's option; the file's has the suffix `-file`.

    Raises:
        BadParameter: If the file can't be read or its first line is empty, or both were given.
    """
    if file is None:
        return value
    if value is not None:
        msg = f"{option} (or its variable) and {option}-file both set the same value: give one of them"
        raise typer.BadParameter(msg)
    try:
        first, *_ = file.read_text(encoding="utf-8").splitlines() or [""]
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{option}-file {file} can't be read ({error}): check the path and its permissions"
        raise typer.BadParameter(msg) from error
    if not first.strip():
        msg = f"{option}-file {file} begins with an empty line: the first line has to be the secret"
        raise typer.BadParameter(msg)
    return first.strip()

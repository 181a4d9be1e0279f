"""Checks that our packages are ours: names as plain as `streaming` may clash with another library's."""

import importlib.util
from importlib import metadata
from pathlib import Path

from jobs.errors import ForeignPackageError

OWN = ("wire", "quota", "lifecycle", "state", "tables", "broker", "streaming", "sql", "jvm")
_HOME = Path(__file__).resolve().parents[1]


def require_own_packages(home: Path = _HOME) -> None:
    """Refuse to run if another library's package shadows one of ours.

    Raises:
        ForeignPackageError: If one does; names the library.
    """
    for name in OWN:
        spec = importlib.util.find_spec(name)
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        if origin is None or origin.parents[1] != home:
            owners = metadata.packages_distributions().get(name, [])
            owner = ", ".join(sorted(set(owners) - {"pid-quota"})) or "no library's"
            msg = (
                f"the package {name!r} found first is {origin or 'nowhere'} (of {owner}), not {home / name}. "
                "Put pid-quota before it: as a library of the job, which comes before the runtime's"
            )
            raise ForeignPackageError(msg)

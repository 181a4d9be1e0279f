"""Whether our packages are ours: `streaming` and others have plain names, which another library may have, too."""

import importlib.util
from importlib import metadata
from pathlib import Path

from jobs.errors import ForeignPackageError

OWN = ("wire", "quota", "lifecycle", "state", "tables", "broker", "streaming", "sql", "jvm")
_HOME = Path(__file__).resolve().parents[1]


def require_own_packages(home: Path = _HOME) -> None:
    """See that a module of another library does not stand where one of ours should be.

    Raises:
        ForeignPackageError: If one does; it says whose it is.
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

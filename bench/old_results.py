"""Reads results of any day by today's names."""

import json
from pathlib import Path
from typing import Any

_NAMES = {"source": "source-default", "source-tuned": "source"}
"""Until 2026-11-22 the source that reads as the job does was called `source-tuned`."""


def read(file: Path) -> dict[str, Any]:
    """Return what a file of results holds."""
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    for runs in found.get("parts", {}).values():
        for run in runs:
            run.setdefault("date", file.stem)
            for load in run["result"].get("loads", ()):
                if "source-tuned" in load["variants"]:
                    load["variants"] = {_NAMES.get(name, name): each for name, each in load["variants"].items()}
                    load["ratios"] = {_renamed(name): each for name, each in load["ratios"].items()}
    return found


def _renamed(ratio: str) -> str:
    variant, base = ratio.split("/")
    return f"{variant}/{_NAMES.get(base, base)}"

"""Breaks code on purpose, in one way at a time, and says how many tries it takes to see each."""

import sys
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch


class Mutants(dict[str, Callable[[], Any]]):
    """Ways to break code, by name: each is called for a context in which the code is broken."""

    def of(self, target: Any, name: str) -> Callable[[Callable[[Any], Any]], None]:
        """Take a function that makes a broken one out of the honest one, which it replaces."""

        def add(make: Callable[[Any], Any]) -> None:
            self[make.__name__] = lambda: patch.object(target, name, make(getattr(target, name)))

        return add

    def main(self, fails: Callable[[int], object], most: int) -> int:
        """Try up to so many numbers with each mutant that the command line names, all by default; 1 if one passes."""
        missed = 0
        for name, mutant in self.items():
            if len(sys.argv) > 1 and not any(each in name for each in sys.argv[1:]):
                continue
            began = time.monotonic()
            with mutant():
                found = next((number + 1 for number in range(most) if fails(number)), None)
            missed += found is None
            print(f"{name}: {found or f'NOT in {most}'}, {time.monotonic() - began:.0f} s", flush=True)
        return 1 if missed else 0

"""`make fuzz`: random walks of an enforcer, in several processes; prints the first ones that went wrong."""

import argparse
import secrets
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.fuzz.enforcement.walk import Walk, WrongError

PROCESSES = 2
CHUNK = 100
SHOWN = 3


def wrong(seed: int) -> str:
    """Return what went wrong in a walk; empty if nothing did. Any other error ends the walks."""
    try:
        Walk(seed).run()
    except WrongError as error:
        return str(error)
    return ""


def wrong_ones(size: int, first: int) -> dict[int, str]:
    told = {seed: wrong(seed) for seed in range(first, first + size)}
    return {seed: what for seed, what in told.items() if what}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--walks", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=None, help="of the first walk; a new one by default")
    options = parser.parse_args()
    first = secrets.randbelow(10**9) if options.seed is None else options.seed
    began = time.monotonic()
    size = min(CHUNK, options.walks)
    found: dict[int, str] = {}
    with ProcessPoolExecutor(PROCESSES) as pool:
        for some in pool.map(partial(wrong_ones, size), range(first, first + options.walks, size)):
            found |= some
    for seed, what in list(found.items())[:SHOWN]:
        print(f"--- walk {seed}\n{what}", flush=True)
    print(f"seed {first}: {options.walks} walks of an enforcer, {len(found)} wrong, {time.monotonic() - began:.0f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""Random walks of an enforcer: `make fuzz` runs many more."""

import secrets

from tests.fuzz.enforcement.run import wrong_ones

FIXED, NEW = 200, 100


def test_walks_of_fixed_seeds_end_what_they_begin() -> None:
    assert wrong_ones(FIXED, 0) == {}


def test_walks_of_new_seeds_end_what_they_begin() -> None:
    assert wrong_ones(NEW, secrets.randbelow(10**9)) == {}

"""The whole way of an event against the exact oracle: `make fuzz` runs many more such histories."""

import secrets

import pytest

from tests.fuzz.run import run, told

FIXED = 200
NEW = 40
PART = 50


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(PART, FIXED, PART))]
)
def test_histories_of_a_fixed_seed_say_what_the_rules_say(first: int) -> None:
    mismatches = run(list(range(first, first + PART))).mismatches

    assert not mismatches, told(mismatches[0])


def test_histories_of_a_new_seed_say_what_the_rules_say() -> None:
    first = secrets.randbelow(10**9)

    mismatches = run(list(range(first, first + NEW))).mismatches

    assert not mismatches, f"make fuzz SEED={mismatches[0]} HISTORIES=1\n{told(mismatches[0])}"

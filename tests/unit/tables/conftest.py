"""Tests of the tables use the rows that the tests of the commands make."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "jobs"))

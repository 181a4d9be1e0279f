"""Lets the fuzz use the group state of the operator's own tests."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "unit" / "streaming"))

"""The benchmarks are scripts: what they share is found beside them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "bench"))

"""Runs a Python wheel task as Databricks does: looks the entry point up and calls it. Program of the tests.

Started with the package, the entry point, and the task's parameters.
"""

import sys
from importlib import metadata


def main(package: str, entry_point: str, *parameters: str) -> None:
    (point,) = metadata.distribution(package).entry_points.select(name=entry_point)
    sys.argv = [package, *parameters]
    point.load()()


if __name__ == "__main__":
    main(*sys.argv[1:])

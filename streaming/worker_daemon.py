"""Forks Spark's Python workers from a process that has loaded our modules (`spark.python.daemon.module`).

Workers share the memory of pandas, pyarrow and the rules, and import nothing when they start.
"""

import gc

from pyspark.daemon import manager

from streaming.decode import preaggregate
from streaming.operator import ledger_operator

LOADED = (preaggregate, ledger_operator)

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()

"""Forks Spark's Python workers from a process that has loaded our modules (`spark.python.daemon.module`).

The workers share the memory of these modules and need not import them.
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

"""Keeps another Spark installation's environment out of the stream's own Spark."""

import importlib.util
import sys
from collections.abc import MutableMapping
from importlib import metadata
from pathlib import Path

from streaming.errors import SparkMissingError

_OF_AN_INSTALLATION = (
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "PYSPARK_DRIVER_PYTHON",
    "PYSPARK_SUBMIT_ARGS",
)
_OF_A_CLUSTER = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "PYSPARK_PYTHON")


def set_foreign_aside(environment: MutableMapping[str, str], *, is_one_process: bool) -> list[str]:
    """Remove the variables by which another Spark or Hadoop would take part, and return their names.

    pyspark runs `$SPARK_HOME/bin/spark-submit`, and Hadoop's configuration may send paths without a scheme to HDFS. A
    stream on a Spark cluster keeps the variables that describe the cluster.

    Examples:
        >>> variables = {"SPARK_HOME": "/opt/spark", "PATH": "/bin"}
        >>> set_foreign_aside(variables, is_one_process=True), variables
        (['SPARK_HOME'], {'PATH': '/bin'})
    """
    names = _OF_AN_INSTALLATION + (_OF_A_CLUSTER if is_one_process else ())
    found = [name for name in names if environment.get(name) not in (None, "", sys.executable)]
    for name in names:
        environment.pop(name, None)
    return found


def require_own_spark() -> None:
    """Check that `import pyspark` finds the installed package.

    Raises:
        SparkMissingError: If another Spark's folder comes first, as with its `python` folder in PYTHONPATH.
    """
    spec = importlib.util.find_spec("pyspark")
    try:
        installed = Path(str(metadata.distribution("pyspark").locate_file("pyspark"))).resolve()
    except metadata.PackageNotFoundError:
        return
    if spec is None or spec.origin is None or Path(spec.origin).resolve().parent == installed:
        return
    found = Path(spec.origin).parent
    msg = f"pyspark comes from {found}, not from {installed}: unset PYTHONPATH, or remove {found.parent} from it"
    raise SparkMissingError(msg)

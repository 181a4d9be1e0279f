"""The command `pid-quota broker-jar`."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from jobs.errors import JobError
from jobs.output.terminal import output, printable
from jvm.broker_jar import JAR_NAME, broker_jar
from wire.holds import HOLD_ANY_AUTHORIZER, HOLD_AUTHORIZER
from wire.plugin_reports import REPORTER_CLASS


def write_broker_jar(
    folder: Annotated[Path, typer.Argument(help="A folder on the brokers' class path, such as Kafka's libs/.")],
) -> None:
    """Write the plugin's jar for the class path of brokers (docs/plugin.md#install)."""
    jar = broker_jar()
    new = folder / f"{JAR_NAME}.new"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Rename the file into place, so that no broker reads half a file.
        shutil.copyfile(jar, new)
        new.replace(folder / JAR_NAME)
    except OSError as error:
        msg = f"{folder} can't be written ({error.strerror}). Choose another folder, or run this as its owner"
        raise JobError(msg) from error
    reporters = f"org.apache.kafka.common.metrics.JmxReporter,{REPORTER_CLASS}"
    output().print(printable(f"wrote {folder / JAR_NAME}. Add to server.properties of each broker:"))
    output().print(f"  metric.reporters={reporters}", markup=False)
    output().print(f"  authorizer.class.name={HOLD_AUTHORIZER}", markup=False)
    output().print(
        f"Brokers that run no authorizer, or another than Kafka's, need {HOLD_ANY_AUTHORIZER} (docs/enforcement.md)",
        soft_wrap=True,
    )

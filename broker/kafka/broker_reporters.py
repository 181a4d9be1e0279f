"""Loads the class that the tap reads into running brokers, and takes it out: `metric.reporters` is dynamic (KIP-226).

The jar must be on a broker's class path since its start. A change stays over restarts, until it is changed back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from broker.errors import BrokerError
from broker.kafka.cluster_admin import ClusterAdmin
from wire.broker_lines import REPORTER_CLASS

SETTING = "metric.reporters"


@dataclass(frozen=True)
class ReportersChange:
    """Outcome for one broker.

    Attributes:
        broker_id: of the broker.
        reporters: `metric.reporters` after the change.
        is_changed: whether it was another before.
        problem: why nothing was changed; None if all is well.
    """

    broker_id: int
    reporters: tuple[str, ...]
    is_changed: bool = False
    problem: str | None = None


def switch_class(admin: ClusterAdmin, *, on: bool, broker_ids: Sequence[int] | None = None) -> list[ReportersChange]:
    """Add the class to `metric.reporters` of brokers, or remove it; other reporters stay.

    Args:
        admin: of the cluster.
        on: whether to add it.
        broker_ids: brokers to change; by default all that are up.

    Returns:
        An outcome per broker; a failure does not stop the others.

    Raises:
        BrokerUnreachableError: no broker answers.
    """
    up = admin.live_brokers()
    return [
        _switch(admin, broker, on=on)
        if broker in up
        else ReportersChange(broker, (), problem=f"it is not up (up: {', '.join(map(str, up))}): check --broker-ids")
        for broker in (up if broker_ids is None else broker_ids)
    ]


def _switch(admin: ClusterAdmin, broker_id: int, *, on: bool) -> ReportersChange:
    try:
        before = _listed(admin.broker_setting(broker_id, SETTING))
        others = tuple(name for name in before if name != REPORTER_CLASS)
        wanted = (*others, REPORTER_CLASS) if on else others
        if wanted != before:
            admin.set_broker_setting(broker_id, SETTING, ",".join(wanted))
    except BrokerError as error:
        return ReportersChange(broker_id, (), problem=str(error))
    return ReportersChange(broker_id, wanted, wanted != before)


def _listed(value: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip())

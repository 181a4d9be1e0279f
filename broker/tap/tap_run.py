"""Resources of a running tap."""

import threading

from broker.attribution.owners import Owners
from broker.tap.binding_topic import BindingTopic
from broker.tap.tap_output import TapOutput


class TapRun:
    """What a tap opens when it starts and closes when it ends."""

    def __init__(self, owners: Owners, bindings: BindingTopic, output: TapOutput, stop: threading.Event) -> None:
        self.owners = owners
        self.bindings = bindings
        self.output = output
        self.stop = stop

"""What a tap holds only while it runs."""

from __future__ import annotations

import threading

from broker.attribution.owners import Owners
from broker.tap.binding_topic import BindingTopic
from broker.tap.tap_output import TapOutput


class TapRun:
    """What there is only while a tap runs."""

    def __init__(self, owners: Owners, bindings: BindingTopic, output: TapOutput, stop: threading.Event) -> None:
        self.owners = owners
        self.bindings = bindings
        self.output = output
        self.stop = stop

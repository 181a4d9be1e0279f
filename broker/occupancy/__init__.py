"""Census of producer state over all brokers: the sweep, and the owners of the producer ids found."""

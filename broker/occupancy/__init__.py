"""Census of the producer ids that all brokers hold: the sweep over the brokers, and the owners of the ids found."""

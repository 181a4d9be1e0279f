"""What brokers hold of producers: the sweep over them, and whose producer ids it found."""

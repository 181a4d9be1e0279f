"""What long-running commands share: metrics, probes, and an end by a signal."""

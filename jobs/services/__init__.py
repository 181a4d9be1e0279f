"""Parts of long-running commands: metrics, probes, and an end by a signal."""

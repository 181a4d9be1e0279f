"""Parts of long-running commands: metrics, probes, and stopping by a signal."""

"""Checks of a deployment: what is wrong on the cluster, and the command that fixes it."""

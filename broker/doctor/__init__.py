"""Checks of a deployment: what is wrong on the cluster, and how to fix it."""

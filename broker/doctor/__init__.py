"""Checks of a deployment."""

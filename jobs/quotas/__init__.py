"""Quotas: their table, their files, and what to set them to."""

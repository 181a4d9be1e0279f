"""Lease rules: which quotas may be lowered, for whom, to what value and until when. No I/O."""

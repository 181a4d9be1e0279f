"""The contracts between the parts of pid-quota."""

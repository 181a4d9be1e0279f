"""Output of commands: tables, JSON, one-line errors, progress."""

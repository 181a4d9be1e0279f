"""Output of commands: tables, JSON, errors in one line, progress."""

"""What the commands print: tables, JSON, errors in one line, progress."""

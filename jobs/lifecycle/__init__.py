"""Where producer ids come from and why clients ask for more: `blocks`, `inits` and `why`."""

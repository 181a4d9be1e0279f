"""`python -m jobs` is `pid-quota`."""

from jobs.cli import main

main()

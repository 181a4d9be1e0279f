"""`pid-quota run`: supervises the stream, the console and the upkeep of the tables as child processes."""

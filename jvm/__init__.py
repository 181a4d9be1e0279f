"""JVM parts: fetches pinned jars, finds a Java to run them, builds the jar for brokers, and starts child processes."""

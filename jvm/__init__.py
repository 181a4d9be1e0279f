"""JVM parts: pinned jars and how to fetch them, a Java to run them, the jar for brokers, and child processes."""

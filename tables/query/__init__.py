"""SQL over the tables and the views of `sql`, without a JVM."""

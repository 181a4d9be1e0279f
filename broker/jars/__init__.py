"""The JVM parts: the jars that `jvm/ivy.xml` pins, fetched once, and a Java to run them."""

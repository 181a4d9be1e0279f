"""JVM dependencies: the jars that `jvm/ivy.xml` pins, and a Java to run them."""

"""The list of JVM parts (ivy.xml), shipped as package data."""

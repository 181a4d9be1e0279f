"""`pid-quota topics`, `plugin`, `broker-jar` and `doctor`."""

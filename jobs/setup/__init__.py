"""`pid-quota topics`, `broker-jar`, `doctor` and `uninstall`."""

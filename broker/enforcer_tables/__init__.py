"""The tables that the enforcer reads its decisions from and writes its actions to."""

"""Which principal each appended batch belongs to."""

"""`pid-quota size`: what a cluster of a given size takes, by a model of measured costs."""

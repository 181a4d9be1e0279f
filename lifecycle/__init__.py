"""Models of producer ids: blocks (KIP-730), brokers' memory and expiry (KIP-854), and churn (KIP-360).

Churn means that a client keeps requesting new producer ids.
"""

"""Small queries beside the stream: what the taps report besides events."""

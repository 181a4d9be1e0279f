"""What this project uses of kafka-python, which ships no types of its own."""

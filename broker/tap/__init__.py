"""The tap: follows the lines of the class in brokers, or polls the brokers, and writes produce events.

A watch is the time in which a tap follows a broker's lines without a gap. Producer ids in its first window may be old,
so they are not charged (they are "learning"), unless the brokers tell which ids existed before.
"""

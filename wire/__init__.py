"""The contracts between the parts of pid-quota: topics, their records, lines of brokers, holds and packed events."""

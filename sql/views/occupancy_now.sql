-- The producer entries that each broker held at the last sweep (KIP-854), largest first. An entry is one producer id in
-- one partition. Followers also hold the entries of their replicas, so held_pids determines the memory.
SELECT
    broker_id,
    topic,
    principal,
    led_pids,
    held_pids,
    CAST(held_pids AS DOUBLE) / greatest(1, broker_pids) AS share_of_broker,
    open_transactions,
    idle_hours,
    estimated_bytes,
    expiration_ms,
    missing_replicas,
    swept_at,
    CAST((unix_millis(now) - unix_millis(swept_at)) / 1000.0 AS DOUBLE) AS age_seconds
FROM (
    SELECT *,
        sum(held_pids) OVER (PARTITION BY broker_id, swept_at) AS broker_pids,
        dense_rank() OVER (PARTITION BY broker_id ORDER BY swept_at DESC) AS newest
    FROM producer_occupancy
    CROSS JOIN settings
)
WHERE newest = 1 AND topic IS NOT NULL
ORDER BY held_pids DESC, broker_id, topic, principal

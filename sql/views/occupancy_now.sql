-- The producer entries that each broker held at the last sweep (KIP-854), largest first. An entry is one producer id in
-- one partition. Followers also hold the entries of their replicas, so held_pids determines the memory.
SELECT
    occupancy.broker_id,
    occupancy.topic,
    occupancy.principal,
    occupancy.led_pids,
    occupancy.held_pids,
    CAST(occupancy.held_pids AS DOUBLE) / greatest(1, sweeps.held_pids) AS share_of_broker,
    occupancy.open_transactions,
    occupancy.idle_hours,
    occupancy.estimated_bytes,
    occupancy.expiration_ms,
    occupancy.missing_replicas,
    occupancy.swept_at,
    CAST((unix_millis(now) - unix_millis(occupancy.swept_at)) / 1000.0 AS DOUBLE) AS age_seconds
FROM producer_occupancy AS occupancy
INNER JOIN (
    SELECT
        broker_id,
        swept_at,
        sum(held_pids) AS held_pids,
        row_number() OVER (PARTITION BY broker_id ORDER BY swept_at DESC) AS newest
    FROM producer_occupancy
    GROUP BY broker_id, swept_at
) AS sweeps
    ON sweeps.broker_id = occupancy.broker_id AND sweeps.swept_at = occupancy.swept_at AND sweeps.newest = 1
CROSS JOIN settings
WHERE occupancy.topic IS NOT NULL
ORDER BY occupancy.held_pids DESC, occupancy.broker_id, occupancy.topic, occupancy.principal

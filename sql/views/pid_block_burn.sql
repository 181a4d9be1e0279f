-- How fast each broker uses up blocks of producer ids (KIP-730). The rate is that of the last 24 hours, or of the
-- time since the first known block if that is shorter, but of at least an hour.
SELECT
    broker_id,
    count(*) AS blocks,
    CAST(sum(length) AS BIGINT) AS producer_ids,
    CAST(sum(CASE WHEN age_ms < 86400000 THEN length ELSE 0 END) AS DOUBLE)
    / CAST(least(24.0, greatest(1.0, max(known_ms) / 3600000.0)) AS DOUBLE) AS pids_per_hour,
    min(allocated_at) AS first_block_at,
    max(allocated_at) AS last_block_at,
    count(DISTINCT broker_epoch) - 1 AS restarts
FROM (
    SELECT *,
        unix_millis(now) - unix_millis(allocated_at) AS age_ms,
        unix_millis(now) - min(unix_millis(allocated_at)) OVER () AS known_ms
    FROM pid_blocks
    CROSS JOIN settings
)
GROUP BY broker_id
ORDER BY pids_per_hour DESC, broker_id

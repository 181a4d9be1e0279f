-- How fast each broker uses up blocks of producer ids (KIP-730). The rate is that of the last 24 hours, or of the
-- time since the first known block if that is shorter, but of at least an hour.
SELECT
    blocks.broker_id,
    count(*) AS blocks,
    CAST(sum(blocks.length) AS BIGINT) AS producer_ids,
    CAST(sum(CASE WHEN blocks.age_ms < 86400000 THEN blocks.length ELSE 0 END) AS DOUBLE)
    / CAST(least(24.0, greatest(1.0, max(history.known_ms) / 3600000.0)) AS DOUBLE) AS pids_per_hour,
    min(blocks.allocated_at) AS first_block_at,
    max(blocks.allocated_at) AS last_block_at,
    count(DISTINCT blocks.broker_epoch) - 1 AS restarts
FROM (
    SELECT *, unix_millis(now) - unix_millis(allocated_at) AS age_ms
    FROM pid_blocks
    CROSS JOIN settings
) AS blocks
CROSS JOIN (
    SELECT coalesce(max(unix_millis(now) - unix_millis(allocated_at)), 0) AS known_ms
    FROM pid_blocks
    CROSS JOIN settings
) AS history
GROUP BY blocks.broker_id
ORDER BY pids_per_hour DESC, blocks.broker_id

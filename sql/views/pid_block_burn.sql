-- How fast each broker uses up blocks of producer ids (KIP-730), and the errors of its requests. The rate covers the
-- last 24 hours, or the time since the first known block, but at least an hour.
SELECT
    answers.broker_id,
    count(CASE WHEN answers.error = 'NONE' THEN 1 END) AS blocks,
    CAST(sum(answers.length) AS BIGINT) AS producer_ids,
    CAST(sum(CASE WHEN answers.age_ms < 86400000 THEN answers.length ELSE 0 END) AS DOUBLE)
    / CAST(least(24.0, greatest(1.0, max(history.known_ms) / 3600000.0)) AS DOUBLE) AS pids_per_hour,
    min(CASE WHEN answers.error = 'NONE' THEN answers.allocated_at END) AS first_block_at,
    max(CASE WHEN answers.error = 'NONE' THEN answers.allocated_at END) AS last_block_at,
    greatest(0, count(DISTINCT CASE WHEN answers.error = 'NONE' THEN answers.broker_epoch END) - 1) AS restarts,
    count(CASE WHEN answers.error = 'CLUSTER_AUTHORIZATION_FAILED' THEN 1 END) AS fatal_errors,
    count(CASE WHEN answers.error = 'STALE_BROKER_EPOCH' THEN 1 END) AS stale_epoch_errors,
    count(CASE WHEN answers.error = 'UNKNOWN_SERVER_ERROR' THEN 1 END) AS unknown_server_errors,
    count(
        CASE
            WHEN
                answers.error NOT IN (
                    'NONE', 'CLUSTER_AUTHORIZATION_FAILED', 'STALE_BROKER_EPOCH', 'UNKNOWN_SERVER_ERROR'
                )
                THEN 1
        END
    ) AS other_errors,
    count(CASE WHEN answers.throttle_time_ms > 0 THEN 1 END) AS throttled_answers
FROM (
    SELECT *, unix_millis(now) - unix_millis(allocated_at) AS age_ms
    FROM known_pid_blocks
    CROSS JOIN settings
) AS answers
CROSS JOIN (
    SELECT coalesce(max(unix_millis(now) - unix_millis(allocated_at)), 0) AS known_ms
    FROM known_pid_blocks
    CROSS JOIN settings
    WHERE error = 'NONE'
) AS history
GROUP BY answers.broker_id
ORDER BY pids_per_hour DESC, answers.broker_id

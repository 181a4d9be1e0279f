-- How many new producer ids each principal made in each window of the quota (an hour, by default): what quotas are
-- suggested from. Windows in which the stream was learning are left out: nothing is counted as new then.
SELECT
    principal,
    window_number,
    min(window_end) AS first_row_at,
    CAST(sum(admitted_pids) AS BIGINT) AS admitted_pids,
    CAST(sum(refused_pids) AS BIGINT) AS refused_pids,
    CAST(sum(admitted_pids + refused_pids) AS BIGINT) AS new_pids
FROM (
    SELECT
        principal,
        window_end,
        admitted_pids,
        refused_pids,
        phase,
        CAST(floor((unix_millis(window_end) - 1) / window_ms) AS BIGINT) AS window_number
    FROM principal_metrics
    CROSS JOIN settings
)
GROUP BY principal, window_number
HAVING sum(CASE WHEN phase = 'learning' THEN 1 ELSE 0 END) = 0
ORDER BY principal, window_number

-- The final row of each principal and metrics interval. Rows of an interval are cumulative, so the newest row counts.
-- Only late_pids are counted per row, so they are added up.
SELECT
    principal,
    window_end,
    as_of,
    rate,
    tokens,
    throttle_time_ms,
    throttle_time_avg_ms,
    new_pids_window,
    quota,
    burst,
    quota_source,
    admitted_pids,
    refused_pids,
    owed_pids,
    late_in_interval AS late_pids,
    active_pids,
    layers,
    state_bytes,
    phase,
    saturated,
    pid_uses,
    pid_uses_one_in,
    batch_id
FROM (
    SELECT *,
        row_number() OVER (
            PARTITION BY principal, window_end ORDER BY as_of DESC, batch_id DESC
        ) AS newest,
        CAST(sum(late_pids) OVER (PARTITION BY principal, window_end) AS BIGINT) AS late_in_interval
    FROM producer_id_metrics
)
WHERE newest = 1

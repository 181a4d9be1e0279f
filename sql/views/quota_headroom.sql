-- How far each principal is from its quota, extrapolated from its last row to now. A principal without events writes no
-- row, but its tokens refill by quota / window and its window empties. `burst` is the size of a full bucket. In rows of
-- an earlier version it is missing, and the quota is used. A window admits the quota, or the burst if that is larger.
SELECT
    principal,
    quota,
    full_tokens AS burst,
    quota_source,
    pids_now AS new_pids_window,
    greatest(quota, full_tokens) - pids_now AS headroom_pids,
    pids_now / greatest(quota, full_tokens) AS used_share,
    tokens_now,
    CAST(ceil(greatest(0, -tokens_now) / quota * window_ms) AS BIGINT) AS throttle_time_ms_now,
    rate,
    active_pids,
    phase,
    saturated,
    age_ms / 1000.0 AS age_seconds,
    as_of
FROM (
    SELECT *,
        coalesce(burst, quota) AS full_tokens,
        CASE WHEN age_ms < window_ms THEN new_pids_window ELSE 0 END AS pids_now,
        least(coalesce(burst, quota), tokens + quota * age_ms / window_ms) AS tokens_now
    FROM (
        SELECT *,
            greatest(0, unix_millis(now) - unix_millis(as_of)) AS age_ms,
            row_number() OVER (PARTITION BY principal ORDER BY window_end DESC) AS newest
        FROM principal_metrics
        CROSS JOIN settings
    )
    WHERE newest = 1
)
ORDER BY used_share DESC NULLS LAST, principal

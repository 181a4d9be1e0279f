-- The latest decision on each principal, and whether it still holds: passing throttled_until is the release, so a
-- silent principal needs no RELEASE row. `settings` is one row: now, window_ms, burst_windows.
SELECT
    principal,
    broker_id,
    action = 'THROTTLE' AND throttled_until > now AS throttled_now,
    CAST(
        CASE
            WHEN action = 'THROTTLE' AND throttled_until > now
                THEN (unix_millis(throttled_until) - unix_millis(now)) / 1000.0
            ELSE 0
        END AS DOUBLE
    ) AS seconds_left,
    action,
    decided_at,
    throttled_until,
    throttle_time_ms,
    tokens,
    least(
        quota * burst_windows,
        tokens + quota * greatest(0, unix_millis(now) - unix_millis(decided_at)) / window_ms
    ) AS tokens_now,
    quota,
    quota_source,
    refused_pids,
    client_ids,
    sample_pids,
    decision_id
FROM (
    SELECT *,
        -- A RELEASE and the next THROTTLE may bear the same time; the THROTTLE is the later one.
        row_number() OVER (
            PARTITION BY principal, broker_id ORDER BY decided_at DESC, batch_id DESC, action DESC
        ) AS newest
    FROM throttle_decisions
)
CROSS JOIN settings
WHERE newest = 1
ORDER BY seconds_left DESC, principal

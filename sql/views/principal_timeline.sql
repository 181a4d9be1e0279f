-- A principal over time, one row per metrics interval: what was new, what was refused, and whether a throttle held.
SELECT
    metrics.principal,
    metrics.broker_id,
    metrics.window_end,
    metrics.admitted_pids,
    metrics.refused_pids,
    metrics.late_pids,
    metrics.new_pids_window,
    metrics.rate,
    metrics.quota,
    metrics.tokens,
    metrics.active_pids,
    metrics.state_bytes,
    metrics.phase,
    throttles.principal IS NOT NULL AS throttled
FROM principal_metrics AS metrics
LEFT JOIN (
    SELECT DISTINCT held.principal, held.broker_id, held.window_end
    FROM principal_metrics AS held
    INNER JOIN throttle_decisions AS decisions
        ON
            decisions.principal = held.principal
            AND coalesce(decisions.broker_id, -1) = coalesce(held.broker_id, -1)
            AND decisions.decided_at <= held.as_of
            AND decisions.throttled_until > held.as_of
    WHERE decisions.action = 'THROTTLE'
) AS throttles
    ON
        throttles.principal = metrics.principal
        AND coalesce(throttles.broker_id, -1) = coalesce(metrics.broker_id, -1)
        AND throttles.window_end = metrics.window_end
ORDER BY metrics.principal, metrics.broker_id, metrics.window_end

-- A principal over time, a row per metrics interval: new and refused ids, and whether a throttle was in force.
SELECT
    metrics.principal,
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
    SELECT DISTINCT held.principal, held.window_end
    FROM principal_metrics AS held
    INNER JOIN (
        -- The next decision replaces this one, and may end the throttle sooner.
        SELECT *,
            lead(decided_at) OVER (
                PARTITION BY principal ORDER BY decided_at, batch_id, action
            ) AS next_decided_at
        FROM throttle_decisions
    ) AS decisions
        ON
            decisions.principal = held.principal
            -- A row is as of the start of a tick. A decision in that tick is later, but the row includes it.
            AND decisions.decided_at < held.window_end
            AND decisions.throttled_until > held.as_of
            AND coalesce(decisions.next_decided_at > held.as_of, TRUE)
    WHERE decisions.action = 'THROTTLE'
) AS throttles
    ON
        throttles.principal = metrics.principal
        AND throttles.window_end = metrics.window_end
ORDER BY metrics.principal, metrics.window_end

-- Who had most producer ids refused in the last 24 hours, which is how long brokers keep a producer id.
-- A producer id refused in two metrics intervals counts in both.
SELECT
    counts.principal,
    counts.refused_pids,
    counts.admitted_pids,
    coalesce(throttles.throttles, 0) AS throttles,
    throttles.last_throttled_at,
    coalesce(throttles.throttled_until > settings.now, FALSE) AS throttled_now
FROM (
    SELECT
        principal,
        CAST(sum(refused_pids) AS BIGINT) AS refused_pids,
        CAST(sum(admitted_pids) AS BIGINT) AS admitted_pids
    FROM principal_metrics
    CROSS JOIN settings
    WHERE unix_millis(window_end) > unix_millis(now) - 86400000
    GROUP BY principal
) AS counts
LEFT JOIN (
    SELECT
        principal,
        count(*) AS throttles,
        max(decided_at) AS last_throttled_at,
        max(throttled_until) AS throttled_until
    FROM throttle_decisions
    CROSS JOIN settings
    WHERE action = 'THROTTLE' AND unix_millis(decided_at) > unix_millis(now) - 86400000
    GROUP BY principal
) AS throttles ON throttles.principal = counts.principal
CROSS JOIN settings
ORDER BY refused_pids DESC, admitted_pids DESC, principal

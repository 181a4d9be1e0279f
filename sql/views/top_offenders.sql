-- Who had the most producer ids refused in the last 24 hours, which is how long brokers keep a producer id. An id
-- that was refused several times counts once.
SELECT
    counts.principal,
    counts.refused_pids,
    counts.admitted_pids,
    coalesce(throttles.throttles, 0) AS throttles,
    throttles.last_throttled_at,
    throttled.principal IS NOT NULL AS throttled_now
FROM new_pids_per_day AS counts
LEFT JOIN throttles_per_day AS throttles ON throttles.principal = counts.principal
LEFT JOIN (
    SELECT DISTINCT principal FROM current_throttles WHERE throttled_now
) AS throttled ON throttled.principal = counts.principal
ORDER BY refused_pids DESC, admitted_pids DESC, principal

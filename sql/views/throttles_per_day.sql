-- How often each principal was throttled in the last 24 hours, and when the last time was. A row that only changes a
-- throttle's end after a change of the quota does not count.
SELECT
    principal,
    count(*) AS throttles,
    max(decided_at) AS last_throttled_at
FROM throttle_decisions
CROSS JOIN settings
WHERE
    action = 'THROTTLE'
    AND coalesce(reason <> 'quota_changed', TRUE)
    AND unix_millis(decided_at) > unix_millis(now) - 86400000
GROUP BY principal

-- Who makes the cluster's new producer ids: each principal's share in the last 24 hours, which is how long brokers keep
-- a producer id. Each refused id counts once per window, because without enforcement brokers keep it, too.
SELECT
    counts.principal,
    counts.new_pids,
    counts.admitted_pids,
    counts.refused_pids,
    CAST(counts.new_pids AS DOUBLE) / CAST(greatest(1, sum(counts.new_pids) OVER ()) AS DOUBLE) AS share,
    latest.active_pids,
    latest.quota,
    latest.quota_source
FROM new_pids_per_day AS counts
INNER JOIN (
    SELECT *, row_number() OVER (PARTITION BY principal ORDER BY window_end DESC) AS newest
    FROM principal_metrics
    CROSS JOIN settings
    WHERE unix_millis(window_end) > unix_millis(now) - 86400000
) AS latest ON latest.principal = counts.principal AND latest.newest = 1
ORDER BY counts.new_pids DESC, counts.principal

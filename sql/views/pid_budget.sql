-- Who makes the cluster's new producer ids: each principal's share in the last 24 hours, which is how long brokers keep
-- a producer id. Each refused id counts once per window, because without enforcement brokers keep it, too.
SELECT
    counts.principal,
    counts.new_pids,
    counts.admitted_pids,
    counts.refused_pids,
    CAST(counts.new_pids AS DOUBLE) / CAST(greatest(1, sum(counts.new_pids) OVER ()) AS DOUBLE) AS share,
    newest.active_pids,
    newest.quota,
    newest.quota_source
FROM new_pids_per_day AS counts
INNER JOIN (
    SELECT
        principal,
        CAST(sum(CASE WHEN newest = 1 THEN active_pids END) AS BIGINT) AS active_pids,
        max(CASE WHEN newest_of_all = 1 THEN quota END) AS quota,
        max(CASE WHEN newest_of_all = 1 THEN quota_source END) AS quota_source
    FROM (
        SELECT *,
            row_number() OVER (PARTITION BY principal, broker_id ORDER BY window_end DESC) AS newest,
            row_number() OVER (PARTITION BY principal ORDER BY window_end DESC, broker_id DESC) AS newest_of_all
        FROM principal_metrics
        CROSS JOIN settings
        WHERE unix_millis(window_end) > unix_millis(now) - 86400000
    )
    GROUP BY principal
) AS newest ON newest.principal = counts.principal
ORDER BY counts.new_pids DESC, counts.principal

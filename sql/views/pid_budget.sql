-- Who makes the cluster's new producer ids: the share of each principal in the last 24 hours, which is how long brokers
-- keep a producer id. Refused ones count: brokers keep them too, as long as nobody enforces.
SELECT
    principal,
    admitted_pids + refused_pids AS new_pids,
    admitted_pids,
    refused_pids,
    CAST(admitted_pids + refused_pids AS DOUBLE)
    / CAST(greatest(1, sum(admitted_pids + refused_pids) OVER ()) AS DOUBLE) AS share,
    active_pids,
    quota,
    quota_source
FROM (
    SELECT
        principal,
        CAST(sum(admitted_pids) AS BIGINT) AS admitted_pids,
        CAST(sum(refused_pids) AS BIGINT) AS refused_pids,
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
)
ORDER BY new_pids DESC, principal

-- Why clients ask for producer ids again and again: the evidence of the last 24 hours, what it says (`kind`, by the
-- same rules as quota/churn.py, explained in docs/kip-360.md), and whether the principal was throttled for it.
-- `client` is a client id without the number or UUID at its end. A principal with more than 50 such has one row, `*`.
-- A life is the time until the next new producer id of the same client and address: what a broker can see of it.
SELECT
    churn.principal,
    churn.client,
    CASE
        WHEN churn.error_answers >= 5 AND churn.error_answers > churn.new_pids THEN 'new producer on error'
        WHEN churn.new_pids < 5 THEN 'healthy'
        WHEN churn.span_seconds <= 30 AND churn.new_pids < 100 THEN 'healthy'
        WHEN churn.errors_before_share >= 0.5 THEN 'new producer on error'
        WHEN churn.hosts >= 3 AND churn.new_pids <= 3 * churn.hosts THEN 'scale-out'
        WHEN churn.median_life_seconds >= 600 THEN 'healthy'
        WHEN churn.client = 'producer-#' AND churn.client_ids >= 0.5 * churn.new_pids THEN 'producer per message/batch'
        WHEN churn.client = 'producer-#' AND churn.client_ids = 1 THEN 'restart loop'
        WHEN churn.median_life_seconds < 2 THEN 'producer per message/batch'
        WHEN churn.life_spread <= 0.5 OR churn.growing_share >= 0.75 THEN 'restart loop'
        ELSE 'producer per message/batch'
    END AS kind,
    churn.new_pids,
    churn.pids_per_hour,
    churn.median_life_seconds,
    churn.life_spread,
    churn.growing_share,
    churn.errors_before_share,
    churn.error_answers,
    churn.hosts,
    churn.client_ids,
    churn.span_seconds,
    churn.epoch_bumps,
    churn.first_at,
    churn.last_at,
    coalesce(throttles.throttles, 0) AS throttles,
    throttles.last_throttled_at,
    coalesce(throttles.throttled_until > settings.now, FALSE) AS throttled_now
FROM (
    SELECT
        principal,
        client,
        count(CASE WHEN is_new_pid THEN 1 END) AS new_pids,
        CAST(count(CASE WHEN is_new_pid THEN 1 END) AS DOUBLE) * 3600
        / CAST(greatest(60000, max(new_at_ms) - min(new_at_ms)) / 1000.0 AS DOUBLE) AS pids_per_hour,
        CAST(percentile_cont(0.5) WITHIN GROUP (ORDER BY life_ms) AS DOUBLE) / 1000 AS median_life_seconds,
        CAST(
            percentile_cont(0.75) WITHIN GROUP (ORDER BY life_ms)
            - percentile_cont(0.25) WITHIN GROUP (ORDER BY life_ms) AS DOUBLE
        )
        / greatest(1, percentile_cont(0.5) WITHIN GROUP (ORDER BY life_ms)) AS life_spread,
        CAST(
            avg(CASE WHEN life_before_ms IS NOT NULL THEN CASE WHEN life_ms > 1.2 * life_before_ms THEN 1 ELSE 0 END END)
            AS DOUBLE
        ) AS growing_share,
        CAST(coalesce(avg(CASE WHEN is_new_pid THEN CASE WHEN after_error THEN 1 ELSE 0 END END), 0) AS DOUBLE)
            AS errors_before_share,
        count(CASE WHEN is_error THEN 1 END) AS error_answers,
        count(DISTINCT client_host) AS hosts,
        count(DISTINCT CASE WHEN is_new_pid THEN client_id END) AS client_ids,
        CAST(coalesce(max(new_at_ms) - min(new_at_ms), 0) / 1000.0 AS DOUBLE) AS span_seconds,
        count(CASE WHEN outcome IN ('epoch bump', 'new instance') THEN 1 END) AS epoch_bumps,
        min(answered_at) AS first_at,
        max(answered_at) AS last_at
    FROM (
        SELECT *,
            lag(life_ms) OVER (
                PARTITION BY principal, client, client_host, is_new_pid ORDER BY at_ms, result_producer_id
            ) AS life_before_ms
        FROM (
            SELECT *,
                CASE WHEN is_new_pid THEN at_ms END AS new_at_ms,
                CASE
                    WHEN is_new_pid
                        THEN
                            lead(at_ms) OVER (
                                PARTITION BY principal, client, client_host, is_new_pid
                                ORDER BY at_ms, result_producer_id
                            ) - at_ms
                END AS life_ms,
                -- Without a transactional id a client that names its old id has had an error.
                (outcome = 'new id' AND transactional_id IS NULL)
                OR errors_so_far > coalesce(
                    lag(errors_so_far) OVER (
                        PARTITION BY principal, client, client_host, is_new_pid ORDER BY at_ms, result_producer_id
                    ),
                    0
                ) AS after_error
            FROM (
                SELECT *,
                    sum(CASE WHEN is_error THEN 1 ELSE 0 END) OVER (
                        PARTITION BY principal, client, client_host
                        ORDER BY at_ms, result_producer_id
                        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
                    ) AS errors_so_far
                FROM (
                    SELECT
                        named.principal,
                        CASE WHEN families.clients > 50 THEN '*' ELSE named.client END AS client,
                        named.client_id,
                        named.client_host,
                        named.transactional_id,
                        named.outcome,
                        named.outcome IN ('fenced', 'unknown producer', 'refused', 'throttled', 'other error')
                            AS is_error,
                        named.is_new_pid,
                        named.result_producer_id,
                        named.answered_at,
                        named.at_ms
                    FROM recent_inits AS named
                    INNER JOIN (
                        SELECT principal, count(DISTINCT client) AS clients
                        FROM recent_inits
                        GROUP BY principal
                    ) AS families ON families.principal = named.principal
                )
            )
        )
    )
    GROUP BY principal, client
) AS churn
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
) AS throttles ON throttles.principal = churn.principal
CROSS JOIN settings
ORDER BY churn.new_pids DESC, churn.principal, churn.client

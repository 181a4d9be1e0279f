-- Why clients keep asking for producer ids: the evidence of the last 24 hours, the diagnosis (`kind`, by the rules of
-- lifecycle/churn.py, explained in docs/kip-360.md), less likely ones (`could_be`; all candidates if undecided), and
-- whether the principal was throttled. No table holds how long an id was in use: `pid-quota why --bootstrap-servers`
-- asks the brokers, and leaves less open. `client` is a client id without the number or UUID at its end. A principal
-- with more than 50 such has one row, `*`. A life is the time until the next new producer id of the same client and
-- address.
SELECT
    churn.principal,
    churn.client,
    split_part(churn.verdict, '|', 1) AS kind,
    nullif(split_part(churn.verdict, '|', 2), '') AS could_be,
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
    churn.silent_seconds,
    churn.steps,
    churn.transactional_ids,
    churn.instances,
    churn.instance_seconds,
    churn.returns,
    churn.fenced_answers,
    churn.epoch_bumps,
    churn.first_at,
    churn.last_at,
    coalesce(throttles.throttles, 0) AS throttles,
    throttles.last_throttled_at,
    throttled.principal IS NOT NULL AS throttled_now
FROM (
    SELECT *,
        CASE
            WHEN (returns >= 3 AND coalesce(instance_seconds, 0) < 600) OR (fenced_answers >= 2 AND instances >= 3)
                THEN 'fencing war|'
            WHEN error_answers >= 5 AND error_answers > new_pids THEN 'new producer on error|'
            WHEN new_pids < 5 AND instances >= 5 AND instance_seconds < 60
                THEN 'healthy|restart loop, fencing war'
            WHEN instances >= 5 AND instance_seconds < 60 THEN 'can''t tell|restart loop, fencing war'
            WHEN new_pids < 5 AND returns >= 3 THEN 'healthy|fencing war'
            WHEN new_pids < 5 THEN 'healthy|'
            WHEN span_seconds <= 30 AND new_pids < 100 AND silent_seconds < 30 THEN 'healthy|producer per message/batch'
            WHEN span_seconds <= 30 AND new_pids < 100 THEN 'healthy|'
            WHEN errors_before_share >= 0.5 THEN 'new producer on error|'
            WHEN hosts >= 3 AND new_pids <= 3 * hosts AND silent_seconds < greatest(30, span_seconds / 4)
                THEN 'scale-out|producer per message/batch'
            WHEN hosts >= 3 AND new_pids <= 3 * hosts THEN 'scale-out|'
            WHEN transactional_ids >= 0.8 * new_pids AND steps >= 2 AND new_pids >= 3 * steps
                AND span_seconds >= 600 * (steps - 1)
                THEN 'deploy|new transactional id each time'
            WHEN transactional_ids >= 0.8 * new_pids AND silent_seconds < greatest(30, span_seconds / 4)
                THEN 'new transactional id each time|deploy'
            WHEN transactional_ids >= 0.8 * new_pids THEN 'new transactional id each time|scale-out'
            WHEN median_life_seconds >= 600 THEN 'healthy|leak'
            WHEN growing_share >= CASE WHEN new_pids - 2 * hosts >= 16 THEN 0.65 ELSE 0.75 END THEN 'restart loop|'
            WHEN steps >= 2 AND new_pids >= 3 * steps AND span_seconds >= 7200 * (steps - 1)
                THEN 'deploy|producer per message/batch, leak, restart loop'
            WHEN steps >= 2 AND new_pids >= 3 * steps
                THEN 'can''t tell|deploy, producer per message/batch, leak, restart loop'
            WHEN client = 'producer-#' AND client_ids = 1 THEN 'restart loop|scale-out'
            WHEN client = 'producer-#' AND client_ids >= greatest(5, 0.5 * new_pids / greatest(1, hosts))
                THEN 'producer per message/batch|leak'
            WHEN (
                median_life_seconds < 2
                AND (hosts > 1 OR steps <> 1 OR silent_seconds < greatest(30, span_seconds / 4))
            ) OR (hosts > 1 AND coalesce(life_spread, 1) > 0.5)
                THEN 'producer per message/batch|leak, restart loop'
            ELSE 'can''t tell|restart loop, producer per message/batch, leak, scale-out'
        END AS verdict
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
            CAST(coalesce(max(now_ms) - max(new_at_ms), 86400000) / 1000.0 AS DOUBLE) AS silent_seconds,
            -- Groups of new ids with a pause of 45 seconds between them.
            count(CASE WHEN is_new_pid AND coalesce(since_new_ms, 45000) >= 45000 THEN 1 END) AS steps,
            count(DISTINCT CASE WHEN is_new_pid THEN transactional_id END) AS transactional_ids,
            count(CASE WHEN outcome = 'new instance' THEN 1 END) AS instances,
            CAST(percentile_cont(0.5) WITHIN GROUP (ORDER BY instance_ms) AS DOUBLE) / 1000 AS instance_seconds,
            count(CASE WHEN is_return THEN 1 END) AS returns,
            count(CASE WHEN outcome = 'fenced' THEN 1 END) AS fenced_answers,
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
                    at_ms - lag(at_ms) OVER (
                        PARTITION BY principal, client, is_new_pid ORDER BY at_ms, result_producer_id
                    ) AS since_new_ms,
                    CASE
                        WHEN outcome = 'new instance'
                            THEN
                                at_ms - lag(at_ms) OVER (
                                    PARTITION BY principal, client, transactional_id, outcome
                                    ORDER BY at_ms, result_producer_id
                                )
                    END AS instance_ms,
                    -- An instance takes back a transactional id that another had taken over.
                    is_taken AND who <> who_before AND takes > 1 AS is_return,
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
                        ) AS errors_so_far,
                        lag(who) OVER (
                            PARTITION BY principal, transactional_id, is_taken ORDER BY at_ms, result_producer_epoch
                        ) AS who_before,
                        row_number() OVER (
                            PARTITION BY principal, transactional_id, is_taken, who
                            ORDER BY at_ms, result_producer_epoch
                        ) AS takes
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
                            named.transactional_id IS NOT NULL
                            AND named.producer_id < 0
                            AND named.outcome IN ('first id', 'new id', 'new instance') AS is_taken,
                            concat(named.client_id, '@', coalesce(named.client_host, '')) AS who,
                            named.result_producer_id,
                            named.result_producer_epoch,
                            named.answered_at,
                            named.at_ms,
                            unix_millis(settings.now) AS now_ms
                        FROM recent_inits AS named
                        INNER JOIN (
                            SELECT principal, count(DISTINCT client) AS clients
                            FROM recent_inits
                            GROUP BY principal
                        ) AS families ON families.principal = named.principal
                        CROSS JOIN settings
                    )
                )
            )
        )
        GROUP BY principal, client
    )
) AS churn
LEFT JOIN throttles_per_day AS throttles ON throttles.principal = churn.principal
LEFT JOIN (
    SELECT DISTINCT principal FROM current_throttles WHERE throttled_now
) AS throttled ON throttled.principal = churn.principal
ORDER BY churn.new_pids DESC, churn.principal, churn.client

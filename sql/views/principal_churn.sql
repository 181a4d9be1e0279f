-- Evidence from the last 24 hours of why each client asks for producer ids, and whether its principal was throttled.
-- `pid-quota why` makes a diagnosis of it (docs/kip-360.md). `client` is the one of the view recent_inits. A life is the
-- time until the next new producer id of the same client and address. The brokers' pace counts as no life: what comes from
-- the principal's first hold on. `lives` has a text for each sampled new producer id: when it was handed out, last used,
-- and followed by the next one (0: never) in ms since the epoch, and the address.
SELECT
    churn.*,
    plugins.repeat_ms,
    coalesce(throttles.throttles, 0) AS throttles,
    throttles.last_throttled_at,
    throttled.principal IS NOT NULL AS throttled_now
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
        CAST(
            avg(CASE WHEN life_before_ms IS NOT NULL THEN CASE WHEN life_ms < 0.8 * life_before_ms THEN 1 ELSE 0 END END)
            AS DOUBLE
        ) AS shrinking_share,
        CAST(coalesce(avg(CASE WHEN is_new_pid THEN CASE WHEN after_error THEN 1 ELSE 0 END END), 0) AS DOUBLE)
            AS errors_before_share,
        count(CASE WHEN is_error THEN 1 END) AS error_answers,
        count(DISTINCT client_host) AS hosts,
        count(DISTINCT CASE WHEN is_new_pid THEN client_id END) AS client_ids,
        count(CASE WHEN is_new_pid AND nth_of_id = 1 AND at_ms > first_new_ms + 30000 THEN 1 END) AS counted_ids,
        CAST(coalesce(max(new_at_ms) - min(new_at_ms), 0) / 1000.0 AS DOUBLE) AS span_seconds,
        count(CASE WHEN is_new_pid AND at_ms < held_ms THEN 1 END) AS free_pids,
        CAST(
            coalesce(
                max(CASE WHEN at_ms < held_ms THEN new_at_ms END) - min(CASE WHEN at_ms < held_ms THEN new_at_ms END), 0
            )
            / 1000.0 AS DOUBLE
        ) AS free_seconds,
        CAST(coalesce(max(now_ms) - max(new_at_ms), 86400000) / 1000.0 AS DOUBLE) AS silent_seconds,
        -- Groups of new ids, separated by pauses of 45 seconds or more.
        count(
            CASE WHEN is_new_pid AND (since_new_ms IS NULL OR (since_new_ms >= 45000 AND at_ms < held_ms)) THEN 1 END
        ) AS steps,
        count(DISTINCT CASE WHEN outcome = 'first id' THEN transactional_id END) AS transactional_ids,
        count(CASE WHEN outcome = 'expired id' THEN 1 END) AS expired_ids,
        CAST(coalesce(sum(CASE WHEN outcome = 'rotation' THEN one_in END), 0) AS BIGINT) AS rotations,
        CAST(
            percentile_cont(0.5) WITHIN GROUP (ORDER BY CASE WHEN outcome = 'rotation' THEN used_ms - at_ms END)
            AS DOUBLE
        )
        / 1000 AS rotation_seconds,
        CASE
            WHEN count(CASE WHEN outcome = 'rotation' THEN 1 END) > 0
                THEN array_sort(array_agg(transactional_id) FILTER (WHERE outcome = 'rotation'))
        END AS rotated_ids,
        max(transactional_id) AS a_transactional_id,
        count(CASE WHEN is_after_fence THEN 1 END) AS fences,
        count(CASE WHEN outcome = 'new instance' THEN 1 END) AS instances,
        CAST(
            percentile_cont(0.5) WITHIN GROUP (ORDER BY CASE WHEN outcome = 'new instance' THEN since_outcome_ms END)
            AS DOUBLE
        )
        / 1000 AS instance_seconds,
        count(CASE WHEN is_return THEN 1 END) AS returns,
        count(CASE WHEN outcome = 'fenced' THEN 1 END) AS fenced_answers,
        count(CASE WHEN outcome IN ('epoch bump', 'new instance', 'fence') THEN 1 END) AS epoch_bumps,
        CASE
            WHEN count(CASE WHEN is_new_pid THEN used_ms END) > 0
                THEN
                    array_sort(
                        array_agg(
                            concat(
                                CAST(at_ms AS STRING),
                                ' ',
                                CAST(used_ms AS STRING),
                                ' ',
                                CAST(coalesce(at_ms + life_ms, 0) AS STRING),
                                ' ',
                                coalesce(client_host, '')
                            )
                        ) FILTER (WHERE is_new_pid AND used_ms IS NOT NULL)
                    )
        END AS lives,
        max(CASE WHEN is_new_pid THEN one_in END) AS lives_one_in,
        max(CASE WHEN is_new_pid THEN as_of_ms END) AS lives_as_of_ms,
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
                -- From a hold on, the brokers' pace decides when ids come.
                CASE
                    WHEN is_new_pid
                        THEN
                            lead(CASE WHEN at_ms < held_ms THEN at_ms END) OVER (
                                PARTITION BY principal, client, client_host, is_new_pid
                                ORDER BY at_ms, result_producer_id
                            ) - at_ms
                END AS life_ms,
                row_number() OVER (
                    PARTITION BY principal, client, client_host, client_id, is_new_pid
                    ORDER BY at_ms, result_producer_id
                ) AS nth_of_id,
                min(CASE WHEN is_new_pid THEN at_ms END) OVER (PARTITION BY principal, client, client_host)
                    AS first_new_ms,
                at_ms - lag(at_ms) OVER (
                    PARTITION BY principal, client, is_new_pid ORDER BY at_ms, result_producer_id
                ) AS since_new_ms,
                at_ms - lag(at_ms) OVER (
                    PARTITION BY principal, client, transactional_id, outcome ORDER BY at_ms, result_producer_id
                ) AS since_outcome_ms,
                -- An instance takes back a transactional id that another instance had taken over. After a fence, a
                -- coordinator such as Connect's leader (KIP-618) has ended the other instance before.
                is_taken AND who <> who_before AND takes > 1 AND coalesce(outcome_before, '') <> 'fence' AS is_return,
                is_taken AND coalesce(outcome_before, '') = 'fence' AS is_after_fence,
                -- A client without a transactional id that sends its old producer id has had an error.
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
                    lag(outcome) OVER (
                        PARTITION BY transactional_id, is_taken OR outcome = 'fence'
                        ORDER BY at_ms, result_producer_epoch
                    ) AS outcome_before,
                    lag(who) OVER (
                        PARTITION BY principal, transactional_id, is_taken ORDER BY at_ms, result_producer_epoch
                    ) AS who_before,
                    row_number() OVER (
                        PARTITION BY principal, transactional_id, is_taken, who
                        ORDER BY at_ms, result_producer_epoch
                    ) AS takes
                FROM (
                    SELECT
                        named.*,
                        named.outcome IN ('fenced', 'unknown producer', 'refused', 'throttled', 'other error')
                            AS is_error,
                        named.transactional_id IS NOT NULL
                        AND named.producer_id < 0
                        AND named.outcome IN ('first id', 'expired id', 'new instance') AS is_taken,
                        concat(named.client_id, '@', coalesce(named.client_host, '')) AS who,
                        unix_millis(settings.now) AS now_ms,
                        coalesce(held.since_ms, 9007199254740992) AS held_ms
                    FROM recent_inits AS named
                    CROSS JOIN settings
                    LEFT JOIN (
                        SELECT
                            principal,
                            min(unix_millis(since)) AS since_ms
                        FROM holds
                        CROSS JOIN settings
                        WHERE state = 'in_force' AND unix_millis(recorded_at) > unix_millis(settings.now) - 86400000
                        GROUP BY principal
                    ) AS held ON held.principal = named.principal
                )
            )
        )
    )
    GROUP BY principal, client
) AS churn
CROSS JOIN (
    SELECT coalesce(max(repeat_ms), 30000) AS repeat_ms FROM broker_status
) AS plugins
LEFT JOIN throttles_per_day AS throttles ON throttles.principal = churn.principal
LEFT JOIN (
    SELECT DISTINCT principal FROM current_throttles WHERE throttled_now
) AS throttled ON throttled.principal = churn.principal
ORDER BY churn.new_pids DESC, churn.principal, churn.client

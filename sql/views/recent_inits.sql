-- The answers to INIT_PRODUCER_ID of the last 24 hours. `client` is the client id with `#` for generated parts: UUIDs,
-- ULIDs, the names of Kubernetes pods, hexadecimal numbers, and a number at the end (Java's `producer-17`). A client
-- is small if it has 1 to 4 new producer ids. If a principal has 20 or more small clients, or small clients with more
-- than 24 ids together, they count as one client, `*`. So do all clients but the 50 with the most new producer ids.
-- Rows with the outcome `rotation` are no answers: they are a sample of the producer ids that EndTxn has handed out.
-- `used_ms` is the last noted use of the producer id; null if the sample lacks it.
SELECT
    answered_at,
    broker_id,
    principal,
    client_id,
    client_host,
    transactional_id,
    producer_id,
    producer_epoch,
    result_producer_id,
    result_producer_epoch,
    error,
    outcome,
    is_new_pid,
    one_in,
    used_ms,
    as_of_ms,
    at_ms,
    CASE
        WHEN (family_pids BETWEEN 1 AND 4 AND (rare_families >= 20 OR rare_pids > 24)) OR place > 50 THEN '*'
        ELSE family
    END AS client
FROM (
    SELECT *,
        sum(CASE WHEN nth = 1 AND family_pids BETWEEN 1 AND 4 THEN 1 ELSE 0 END) OVER (PARTITION BY principal)
            AS rare_families,
        sum(CASE WHEN nth = 1 AND family_pids BETWEEN 1 AND 4 THEN family_pids ELSE 0 END)
            OVER (PARTITION BY principal) AS rare_pids,
        dense_rank() OVER (PARTITION BY principal ORDER BY family_pids DESC, family) AS place
    FROM (
        SELECT *,
            count(CASE WHEN is_new_pid THEN 1 END) OVER (PARTITION BY principal, family) AS family_pids,
            row_number() OVER (PARTITION BY principal, family ORDER BY answered_at) AS nth
        FROM (
            SELECT
                asked.*,
                -- DuckDB replaces only the first match, Spark all matches.
                regexp_replace(
                    regexp_replace(
                        regexp_replace(
                            regexp_replace(
                                client_id,
                                '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}',
                                '#'
                            ),
                            '-[bcdfghjklmnpqrstvwxz0-9]{8,10}-[bcdfghjklmnpqrstvwxz0-9]{5}$',
                            '-#'
                        ),
                        '[0-7][0-9A-HJKMNP-TV-Z]{25}|[0-9a-f]{8,}|[0-9A-F]{8,}',
                        '#'
                    ),
                    '[0-9]+$',
                    '#'
                ) AS family
            FROM (
                SELECT
                    inits.*,
                    uses.one_in,
                    uses.as_of_ms,
                    uses.last_used_ms AS used_ms,
                    unix_millis(inits.answered_at) AS at_ms
                FROM classified_inits AS inits
                LEFT JOIN used_pids AS uses
                    ON
                        uses.principal = inits.principal
                        AND uses.producer_id = inits.result_producer_id
                        AND inits.is_new_pid
                UNION ALL
                SELECT
                    timestamp_millis(first_used_ms) AS answered_at,
                    NULL AS broker_id,
                    principal,
                    client_id,
                    NULL AS client_host,
                    transactional_id,
                    -1 AS producer_id,
                    -1 AS producer_epoch,
                    producer_id AS result_producer_id,
                    0 AS result_producer_epoch,
                    'NONE' AS error,
                    'rotation' AS outcome,
                    FALSE AS is_new_pid,
                    one_in,
                    as_of_ms,
                    last_used_ms AS used_ms,
                    first_used_ms AS at_ms
                FROM used_pids
                WHERE transactional_id IS NOT NULL
            ) AS asked
            CROSS JOIN settings
            WHERE at_ms > unix_millis(now) - 86400000
        )
    )
)
ORDER BY at_ms

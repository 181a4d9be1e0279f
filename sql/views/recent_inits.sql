-- The answers to INIT_PRODUCER_ID of the last 24 hours. `client` is the client id with `#` for generated parts: UUIDs,
-- the names of Kubernetes pods, hexadecimal numbers, and a number at the end (Java's `producer-17`). A client is small
-- if it has 1 to 4 new producer ids. If a principal has 20 or more small clients, or small clients with more than 24
-- ids together, they count as one client, `*`. So do all clients but the 50 with the most new producer ids.
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
    unix_millis(answered_at) AS at_ms,
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
                classified_inits.*,
                -- DuckDB replaces only the first match, Spark all matches.
                regexp_replace(
                    regexp_replace(
                        regexp_replace(
                            regexp_replace(
                                client_id, '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}', '#'
                            ),
                            '-[bcdfghjklmnpqrstvwxz0-9]{8,10}-[bcdfghjklmnpqrstvwxz0-9]{5}$',
                            '-#'
                        ),
                        '[0-9a-f]{8,}',
                        '#'
                    ),
                    '[0-9]+$',
                    '#'
                ) AS family
            FROM classified_inits
            CROSS JOIN settings
            WHERE unix_millis(answered_at) > unix_millis(now) - 86400000
        )
    )
)
ORDER BY answered_at

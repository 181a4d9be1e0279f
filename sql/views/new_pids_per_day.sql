-- How many new producer ids each principal made in the last 24 hours. An id that is refused several times within a
-- window counts once. No table has the ids themselves, so across windows `refused_pids` is an estimate, between
-- `refused_pids_at_least` and `refused_pids_at_most`. It depends on how many refused ids are retried within a window.
-- If all are retried (`refusals` equals `refusals_at_most`), only the largest window counts. If none is retried
-- (`refusals` equals `refused_pids`), it is the sum of all windows. In between, it is interpolated.
SELECT
    principal,
    admitted_pids,
    CAST(round(refused_pids) AS BIGINT) AS refused_pids,
    CAST(round(admitted_pids - late_admitted_pids + greatest(late_admitted_pids, refused_pids)) AS BIGINT) AS new_pids,
    most_refused_pids AS refused_pids_at_least,
    all_refused_pids AS refused_pids_at_most
FROM (
    SELECT *,
        most_refused_pids + CAST(all_refused_pids - most_refused_pids AS DOUBLE)
        * greatest(0, refusals_at_most - refusals) / greatest(1, refusals_at_most - all_refused_pids) AS refused_pids
    FROM (
        SELECT
            principal,
            CAST(sum(admitted_pids) AS BIGINT) AS admitted_pids,
            CAST(sum(late_admitted_pids) AS BIGINT) AS late_admitted_pids,
            CAST(max(refused_pids) AS BIGINT) AS most_refused_pids,
            CAST(sum(refused_pids) AS BIGINT) AS all_refused_pids,
            CAST(sum(refusals) AS BIGINT) AS refusals,
            CAST(sum(refusals_at_most) AS BIGINT) AS refusals_at_most
        FROM new_pids_per_window
        CROSS JOIN settings
        WHERE unix_millis(first_row_at) > unix_millis(now) - 86400000
        GROUP BY principal
    )
)
ORDER BY new_pids DESC, principal

-- How many new producer ids each principal made in the last 24 hours. An id that comes in several windows counts once:
-- settled ids (admitted or owed) are known, so only ids that a window left unsettled can count again in the next one.
-- No table has the ids themselves, so how many of them came again is an estimate, by the share of refused ids that are
-- retried within a window. If all are retried (`refusals` equals `refusals_at_most`), all of them came again. If none
-- is retried (`refusals` equals `refused_pids`), the windows are added up.
SELECT
    principal,
    CAST(sum(admitted_pids) AS BIGINT) AS admitted_pids,
    CAST(sum(owed_pids) AS BIGINT) AS owed_pids,
    CAST(round(sum(refused_pids - least(retried_pids, refused_pids))) AS BIGINT) AS refused_pids,
    CAST(round(sum(new_pids - least(retried_pids, new_pids))) AS BIGINT) AS new_pids,
    CAST(max(refused_pids) AS BIGINT) AS refused_pids_at_least,
    CAST(sum(refused_pids) AS BIGINT) AS refused_pids_at_most
FROM (
    SELECT *, least(unsettled_before, refused_before * retried_share) AS retried_pids
    FROM (
        SELECT *,
            coalesce(sum(unsettled_pids) OVER before, 0) AS unsettled_before,
            coalesce(sum(refused_pids) OVER before, 0) AS refused_before,
            1.0 - greatest(0.0, sum(refusals_at_most - refusals) OVER principals)
            / greatest(1.0, sum(refusals_at_most - refused_pids) OVER principals) AS retried_share
        FROM new_pids_per_window
        CROSS JOIN settings
        WHERE unix_millis(first_row_at) > unix_millis(now) - 86400000
        WINDOW
            principals AS (PARTITION BY principal),
            before AS (PARTITION BY principal ORDER BY window_number RANGE BETWEEN 1 PRECEDING AND 1 PRECEDING)
    )
)
GROUP BY principal
ORDER BY new_pids DESC, principal

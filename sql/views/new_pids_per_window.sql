-- How many new producer ids each principal made in each window of the quota (an hour, by default): the input of
-- quotas --suggest. A refused id is owed if it took a token. An id is settled once it is admitted or owed: it is known
-- then, and not refused again. So the new ids are the settled ids and the refused ids that did not settle in the
-- window, which are `unsettled_pids`. Clients retry, so `refused_pids` counts an id once per window. `refusals` counts
-- an id once per metrics interval that refused it, and equals `refusals_at_most` if every unsettled id is retried in
-- every interval. `late_settled_pids` are the ids settled after others were refused without being owed. They may be
-- new ids, or retried ones. In a window with `learning`, no id counts as new.
SELECT
    principal,
    window_number,
    first_row_at,
    CAST(admitted_pids AS BIGINT) AS admitted_pids,
    CAST(owed_pids AS BIGINT) AS owed_pids,
    CAST(late_admitted_pids + late_owed_pids AS BIGINT) AS late_settled_pids,
    CAST(refused_pids AS BIGINT) AS refused_pids,
    CAST(round(unsettled_pids) AS BIGINT) AS unsettled_pids,
    CAST(refusals AS BIGINT) AS refusals,
    CAST(round(refusals_at_most) AS BIGINT) AS refusals_at_most,
    CAST(round(admitted_pids + owed_pids + unsettled_pids) AS BIGINT) AS new_pids,
    learning > 0 AS learning
FROM (
    SELECT *,
        -- Only a retried id was refused before it was admitted.
        refused_pids - owed_pids - least(late_admitted_pids, refused_pids - owed_pids)
        * (1.0 - greatest(0, refusals_at_most - refusals) / greatest(1.0, refusals_at_most - refused_pids))
            AS unsettled_pids
    FROM (
        SELECT *,
            -- An id that settles late was refused in half of the intervals before, on average.
            owed_pids + greatest(0, refused_pids - owed_pids - late_admitted_pids) * refusing_intervals
            + (late_owed_pids + least(late_admitted_pids, refused_pids - owed_pids)) * (refusing_intervals + 1) / 2.0
                AS refusals_at_most
        FROM (
            SELECT
                principal,
                window_number,
                min(window_end) AS first_row_at,
                sum(admitted_pids) AS admitted_pids,
                sum(owed_pids) AS owed_pids,
                sum(CASE WHEN unsettled_before > 0 THEN admitted_pids ELSE 0 END) AS late_admitted_pids,
                sum(CASE WHEN unsettled_before > 0 THEN owed_pids ELSE 0 END) AS late_owed_pids,
                sum(refused_pids) AS refusals,
                count(DISTINCT CASE WHEN refused_pids > owed_pids THEN window_end END) AS refusing_intervals,
                -- The last row counts the admitted and distinct refused ids since the window began, or since earlier.
                least(
                    sum(refused_pids),
                    greatest(
                        max(refused_pids),
                        sum(owed_pids),
                        max_by(new_pids_window, window_end) - sum(admitted_pids)
                    )
                ) AS refused_pids,
                max(CASE WHEN phase = 'learning' THEN 1 ELSE 0 END) AS learning
            FROM (
                SELECT *,
                    sum(refused_pids - owed_pids) OVER (
                        PARTITION BY principal, window_number
                        ORDER BY window_end
                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                    ) AS unsettled_before
                FROM (
                    SELECT *,
                        CAST(floor((unix_millis(window_end) - 1) / window_ms) AS BIGINT) AS window_number
                    FROM principal_metrics
                    CROSS JOIN settings
                )
            )
            GROUP BY principal, window_number
        )
    )
)
ORDER BY principal, window_number

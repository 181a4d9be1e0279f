-- How many new producer ids each principal made in each window of the quota (an hour, by default): the input of
-- suggest-quotas. Refused clients retry, so `refused_pids` counts an id once per window. `refusals` counts an id once
-- per metrics interval that refused it, and equals `refusals_at_most` if every id is retried in every interval.
-- `late_admitted_pids` estimates the ids admitted after a refusal. In a window with `learning`, no id counts as new.
SELECT
    principal,
    window_number,
    first_row_at,
    CAST(admitted_pids AS BIGINT) AS admitted_pids,
    CAST(late_admitted_pids AS BIGINT) AS late_admitted_pids,
    CAST(refused_pids AS BIGINT) AS refused_pids,
    CAST(refusals AS BIGINT) AS refusals,
    CAST(round(refusals_at_most) AS BIGINT) AS refusals_at_most,
    CAST(round(
        admitted_pids + refused_pids
        - least(late_admitted_pids, refused_pids)
        * (1.0 - greatest(0, refusals_at_most - refusals) / greatest(1.0, refusals_at_most - refused_pids))
    ) AS BIGINT) AS new_pids,
    learning > 0 AS learning
FROM (
    SELECT *,
        -- An id that is finally admitted was refused for half of the time, on average.
        refused_pids * refusing_intervals
        - least(late_admitted_pids, refused_pids) * (refusing_intervals - 1) / 2.0 AS refusals_at_most
    FROM (
        SELECT
            principal,
            window_number,
            min(window_end) AS first_row_at,
            sum(admitted_pids) AS admitted_pids,
            sum(CASE WHEN refused_before > 0 THEN admitted_pids ELSE 0 END) AS late_admitted_pids,
            sum(refused_pids) AS refusals,
            count(DISTINCT CASE WHEN refused_pids > 0 THEN window_end END) AS refusing_intervals,
            -- The last row counts the admitted and the distinct refused ids since the window began, or since earlier.
            least(
                sum(refused_pids),
                greatest(max(refused_pids), max_by(new_pids_window, window_end) - sum(admitted_pids))
            ) AS refused_pids,
            max(CASE WHEN phase = 'learning' THEN 1 ELSE 0 END) AS learning
        FROM (
            SELECT *,
                sum(refused_pids) OVER (
                    PARTITION BY principal, window_number
                    ORDER BY window_end
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ) AS refused_before
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
ORDER BY principal, window_number

-- The final row of each principal and metrics interval: rows of an interval are cumulative, the newest holds.
SELECT * EXCEPT (newest)
FROM (
    SELECT *,
        row_number() OVER (
            PARTITION BY principal, broker_id, window_end ORDER BY as_of DESC, batch_id DESC
        ) AS newest
    FROM producer_id_metrics
)
WHERE newest = 1

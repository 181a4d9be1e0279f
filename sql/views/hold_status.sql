-- What stands between each principal and new producer ids now. `hold` is one of: held (a live broker confirms it),
-- written (no live broker confirms it yet), released, would be held (the stream runs without --enforce), left out.
-- Each source has the last word on its own facts: the records of the topic, each broker's reports, the stream's plan.
-- A fact counts until its time, and a plan at most until the next RELEASE.
SELECT
    principal,
    CASE
        WHEN confirmed_brokers > 0 THEN 'held'
        WHEN released_until IS NOT NULL THEN 'released'
        WHEN written_until IS NOT NULL THEN 'written'
        WHEN planned = 'would_hold' THEN 'would be held'
        WHEN planned = 'left_out' THEN 'left out'
    END AS hold,
    held_since,
    hold_ends,
    CASE WHEN confirmed_brokers > 0 OR written_until IS NOT NULL THEN hold_reason ELSE plan_reason END AS hold_reason,
    confirmed_brokers,
    (SELECT count(*) FROM broker_coverage WHERE watched_now) AS live_brokers,
    held_requests,
    let_in,
    released_until,
    init_every_ms,
    writer,
    decision_id
FROM (
    SELECT
        principal,
        count(CASE WHEN source = 'broker' THEN 1 END) AS confirmed_brokers,
        min(CASE WHEN source = 'broker' THEN since END) AS held_since,
        max(CASE WHEN source IN ('record', 'broker') THEN until END) AS hold_ends,
        max(CASE WHEN source = 'record' THEN until END) AS written_until,
        max(CASE WHEN source = 'release' THEN until ELSE everybody_until END) AS released_until,
        max(CASE WHEN source = 'record' THEN reason END) AS hold_reason,
        max(CASE WHEN source = 'plan' THEN reason END) AS plan_reason,
        max(CASE WHEN source = 'plan' THEN state END) AS planned,
        CAST(sum(CASE WHEN source = 'broker' THEN held_requests END) AS BIGINT) AS held_requests,
        CAST(sum(CASE WHEN source = 'broker' THEN let_in END) AS BIGINT) AS let_in,
        max(init_every_ms) AS init_every_ms,
        coalesce(
            max(CASE WHEN source = 'record' THEN writer END), max(CASE WHEN source = 'broker' THEN writer END)
        ) AS writer,
        coalesce(
            max(CASE WHEN source = 'record' THEN decision_id END),
            max(CASE WHEN source = 'broker' THEN decision_id END)
        ) AS decision_id
    FROM (
        SELECT
            facts.*,
            max(CASE WHEN source = 'release' AND principal IS NULL THEN until END) OVER () AS everybody_until
        FROM (
            SELECT sourced.*,
                -- Of facts with the same time, the one that holds or releases counts: its word is the greater one.
                row_number() OVER (
                    PARTITION BY source, principal, broker_id ORDER BY recorded_at DESC, batch_id DESC, state DESC
                ) AS newest
            FROM (
                SELECT
                    holds.*,
                    now,
                    CASE
                        WHEN state IN ('written', 'removed') THEN 'record'
                        WHEN state IN ('released', 'release_ended') THEN 'release'
                        WHEN state IN ('in_force', 'ended') THEN 'broker'
                        ELSE 'plan'
                    END AS source
                FROM holds
                CROSS JOIN settings
                WHERE
                    state <> 'ignored'
                    -- A hold lasts at most 10 minutes unless a new record extends it, and a release at most 7 days.
                    AND unix_millis(recorded_at) > unix_millis(now)
                    - CASE WHEN state IN ('written', 'removed', 'in_force', 'ended') THEN 3600000 ELSE 864000000 END
            ) AS sourced
        ) AS facts
        LEFT JOIN (SELECT broker_id AS live_id FROM broker_coverage WHERE watched_now) AS live
            ON live_id = broker_id
        LEFT JOIN (
            SELECT principal AS released, max(decided_at) AS released_at
            FROM throttle_decisions
            WHERE action = 'RELEASE'
            GROUP BY principal
        ) AS releases ON released = principal
        WHERE
            newest = 1
            AND state IN ('written', 'released', 'in_force', 'would_hold', 'left_out')
            AND unix_millis(until) > unix_millis(now)
            AND (source <> 'broker' OR live_id IS NOT NULL)
            AND (source <> 'plan' OR coalesce(released_at < recorded_at, TRUE))
    )
    WHERE principal IS NOT NULL
    GROUP BY principal
)

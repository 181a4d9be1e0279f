-- All views, for Spark SQL and Databricks SQL: run it where the tables are (`USE catalog.schema` first).
-- Made from sql/views by `make views`; `settings` holds the defaults of the stream: change them there if it has others.

CREATE OR REPLACE VIEW settings AS
SELECT current_timestamp() AS now, CAST(3600000 AS BIGINT) AS window_ms;

CREATE OR REPLACE VIEW classified_inits AS
-- Each answer to INIT_PRODUCER_ID once, with its outcome (KIP-360).
-- An epoch bump and its retry get the same answer: a retry is an identical request with an identical answer before it.
-- `is_new_pid`: the answer allocated a producer id, and not only an epoch.
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
    outcome IN ('first id', 'new id') AS is_new_pid
FROM (
    SELECT *,
        CASE
            WHEN error IN ('PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH') THEN 'fenced'
            WHEN error IN ('UNKNOWN_PRODUCER_ID', 'INVALID_PRODUCER_ID_MAPPING') THEN 'unknown producer'
            WHEN
                error IN (
                    'CLUSTER_AUTHORIZATION_FAILED',
                    'TRANSACTIONAL_ID_AUTHORIZATION_FAILED',
                    'INVALID_REQUEST',
                    'INVALID_TRANSACTION_TIMEOUT',
                    'UNSUPPORTED_VERSION'
                )
                THEN 'refused'
            WHEN error = 'THROTTLING_QUOTA_EXCEEDED' THEN 'throttled'
            WHEN
                error IN (
                    'CONCURRENT_TRANSACTIONS',
                    'COORDINATOR_LOAD_IN_PROGRESS',
                    'COORDINATOR_NOT_AVAILABLE',
                    'NOT_COORDINATOR',
                    'REQUEST_TIMED_OUT'
                )
                THEN 'busy'
            WHEN error <> 'NONE' THEN 'other error'
            WHEN transactional_id IS NULL AND producer_id < 0 THEN 'first id'
            WHEN transactional_id IS NULL THEN 'new id'
            WHEN producer_id < 0 AND result_producer_epoch > 0 THEN 'new instance'
            WHEN producer_id < 0 AND coalesce(ids_before, 0) > 0 THEN 'new id'
            WHEN producer_id < 0 THEN 'first id'
            WHEN asked > 1 THEN 'bump retry'
            WHEN result_producer_id = producer_id THEN 'epoch bump'
            ELSE 'new id'
        END AS outcome
    FROM (
        SELECT *,
            row_number() OVER (
                PARTITION BY
                    transactional_id, producer_id, producer_epoch, result_producer_id, result_producer_epoch, error
                ORDER BY answered_at, batch_id
            ) AS asked,
            sum(CASE WHEN error = 'NONE' THEN 1 ELSE 0 END) OVER (
                PARTITION BY transactional_id, CASE WHEN transactional_id IS NULL THEN result_producer_id END
                ORDER BY answered_at, result_producer_id, result_producer_epoch, batch_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS ids_before
        FROM (
            SELECT *,
                row_number() OVER (
                    PARTITION BY
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
                        error
                    ORDER BY repeated, batch_id
                ) AS copy
            FROM producer_inits
        )
        -- A row that a tap sent again after a crash counts only if the first one is missing.
        WHERE copy = 1 OR NOT repeated
    )
)
ORDER BY answered_at, principal, client_id;

CREATE OR REPLACE VIEW current_throttles AS
-- The latest decision on each principal, and whether it is in force: it ends at throttled_until, with or without a
-- RELEASE row. `tokens_now` is extrapolated from the newest metrics row, as in quota_headroom: tokens may have been
-- refilled and spent since the decision. A row without a
-- burst has one of its quota. `settings` is one row: now, window_ms.
SELECT
    decisions.principal,
    decisions.broker_id,
    decisions.action = 'THROTTLE' AND decisions.throttled_until > now AS throttled_now,
    CAST(
        CASE
            WHEN decisions.action = 'THROTTLE' AND decisions.throttled_until > now
                THEN (unix_millis(decisions.throttled_until) - unix_millis(now)) / 1000.0
            ELSE 0
        END AS DOUBLE
    ) AS seconds_left,
    decisions.action,
    decisions.reason,
    decisions.decided_at,
    decisions.throttled_until,
    decisions.throttle_time_ms,
    decisions.tokens,
    CASE
        -- A row is as of the start of a tick: one of the decision's own batch includes the decision.
        WHEN metrics.as_of >= decisions.decided_at OR metrics.batch_id >= decisions.batch_id
            THEN
                least(
                    coalesce(metrics.burst, metrics.quota),
                    metrics.tokens
                    + metrics.quota * greatest(0, unix_millis(now) - unix_millis(metrics.as_of)) / window_ms
                )
        ELSE
            least(
                coalesce(decisions.burst, decisions.quota),
                decisions.tokens
                + decisions.quota * greatest(0, unix_millis(now) - unix_millis(decisions.decided_at)) / window_ms
            )
    END AS tokens_now,
    decisions.quota,
    decisions.burst,
    decisions.quota_source,
    decisions.refused_pids,
    decisions.client_ids,
    decisions.addresses,
    decisions.sample_pids,
    decisions.decision_id
FROM (
    SELECT *,
        -- A RELEASE and the next THROTTLE may have the same time; the THROTTLE is the later one.
        row_number() OVER (
            PARTITION BY principal, broker_id ORDER BY decided_at DESC, batch_id DESC, action DESC
        ) AS newest
    FROM throttle_decisions
) AS decisions
LEFT JOIN (
    SELECT
        rows_of_throttled.*,
        row_number() OVER (PARTITION BY principal, broker_id ORDER BY as_of DESC, batch_id DESC) AS newest
    FROM (
        SELECT principal, broker_id, as_of, batch_id, tokens, quota, burst
        FROM producer_id_metrics
        WHERE principal IN (SELECT principal FROM throttle_decisions)
    ) AS rows_of_throttled
) AS metrics
    ON
        metrics.newest = 1
        AND metrics.principal = decisions.principal
        AND coalesce(metrics.broker_id, -1) = coalesce(decisions.broker_id, -1)
CROSS JOIN settings
WHERE decisions.newest = 1
ORDER BY seconds_left DESC, decisions.principal;

CREATE OR REPLACE VIEW enforcement AS
-- The leases of the enforcer, newest first: which lever it used on whom, and whether that is still in force.
SELECT
    lease_id,
    principal,
    entity_user,
    entity_client_id,
    entity_ip,
    lever,
    previous_value,
    new_value,
    state,
    state IN ('in_force', 'restoring') AS in_force_now,
    CAST(
        CASE
            WHEN state IN ('in_force', 'restoring')
                THEN greatest(0, unix_millis(until) - unix_millis(now)) / 1000.0
            ELSE 0
        END AS DOUBLE
    ) AS seconds_left,
    until,
    recorded_at,
    decision_id,
    reason
FROM (
    SELECT *, row_number() OVER (
        -- Rows of earlier versions have no revision.
        PARTITION BY lease_id ORDER BY lease_revision DESC, recorded_at DESC, sequence DESC
    ) AS newest
    FROM enforcement_actions
    WHERE lease_id IS NOT NULL AND state NOT IN ('alert', 'release')
)
CROSS JOIN settings
WHERE newest = 1
ORDER BY recorded_at DESC, lease_id;

CREATE OR REPLACE VIEW init_outcomes AS
-- Outcomes of the last 24 hours' requests for producer ids, by client: how many, and from how many addresses.
SELECT
    principal,
    client_id,
    outcome,
    error,
    count(*) AS answers,
    count(CASE WHEN is_new_pid THEN 1 END) AS new_pids,
    count(DISTINCT client_host) AS hosts,
    count(DISTINCT transactional_id) AS transactional_ids,
    max(answered_at) AS last_at
FROM classified_inits
CROSS JOIN settings
WHERE unix_millis(answered_at) > unix_millis(now) - 86400000
GROUP BY principal, client_id, outcome, error
ORDER BY answers DESC, principal, client_id, outcome, error;

CREATE OR REPLACE VIEW known_pid_blocks AS
-- Each block of producer ids once: a tap that crashed, or has lost its position, sends blocks again. Rows without a block
-- are errors, of an earlier version.
SELECT
    broker_id,
    broker_epoch,
    first_producer_id,
    length,
    allocated_at,
    batch_id
FROM (
    SELECT *,
        row_number() OVER (
            PARTITION BY broker_id, broker_epoch, first_producer_id, length, allocated_at
            ORDER BY batch_id
        ) AS copy
    FROM pid_blocks
    WHERE length > 0
)
WHERE copy = 1
ORDER BY allocated_at, first_producer_id, broker_id;

CREATE OR REPLACE VIEW principal_metrics AS
-- The final row of each principal and metrics interval: rows of an interval are cumulative, so the newest one counts.
-- Only late events are counted per row.
SELECT
    principal,
    broker_id,
    window_end,
    as_of,
    rate,
    tokens,
    throttle_time_ms,
    throttle_time_avg_ms,
    new_pids_window,
    quota,
    burst,
    quota_source,
    admitted_pids,
    refused_pids,
    late_in_interval AS late_pids,
    active_pids,
    layers,
    state_bytes,
    phase,
    saturated,
    batch_id
FROM (
    SELECT *,
        row_number() OVER (
            PARTITION BY principal, broker_id, window_end ORDER BY as_of DESC, batch_id DESC
        ) AS newest,
        CAST(sum(late_pids) OVER (PARTITION BY principal, broker_id, window_end) AS BIGINT) AS late_in_interval
    FROM producer_id_metrics
)
WHERE newest = 1;

CREATE OR REPLACE VIEW new_pids_per_window AS
-- How many new producer ids each principal made in each window of the quota (an hour, by default): the input of
-- suggest-quotas. Refused clients retry, so an id counts once, however often it was refused. `refused_pids` are
-- distinct in the window; `refusals` counts an id once per metrics interval that refused it, and is `refusals_at_most`
-- if every id is retried in every interval. `late_admitted_pids` estimates the ids admitted after a refusal. In a
-- window with `learning` nothing counts as new.
SELECT
    principal,
    window_number,
    min(first_row_at) AS first_row_at,
    CAST(sum(admitted_pids) AS BIGINT) AS admitted_pids,
    CAST(sum(late_admitted_pids) AS BIGINT) AS late_admitted_pids,
    CAST(sum(refused_pids) AS BIGINT) AS refused_pids,
    CAST(sum(refusals) AS BIGINT) AS refusals,
    CAST(round(sum(refusals_at_most)) AS BIGINT) AS refusals_at_most,
    CAST(round(sum(
        admitted_pids + refused_pids
        - least(late_admitted_pids, refused_pids)
        * (1.0 - greatest(0, refusals_at_most - refusals) / greatest(1.0, refusals_at_most - refused_pids))
    )) AS BIGINT) AS new_pids,
    max(learning) > 0 AS learning
FROM (
    SELECT *,
        -- An id that is admitted in the end stops being refused: after half of the time, on average.
        refused_pids * refusing_intervals
        - least(late_admitted_pids, refused_pids) * (refusing_intervals - 1) / 2.0 AS refusals_at_most
    FROM (
        SELECT
            principal,
            broker_id,
            window_number,
            min(window_end) AS first_row_at,
            sum(admitted_pids) AS admitted_pids,
            sum(CASE WHEN refused_before > 0 THEN admitted_pids ELSE 0 END) AS late_admitted_pids,
            sum(refused_pids) AS refusals,
            count(DISTINCT CASE WHEN refused_pids > 0 THEN window_end END) AS refusing_intervals,
            -- The last row covers the admitted and the distinct refused ids since the window began, or longer.
            least(
                sum(refused_pids),
                greatest(max(refused_pids), max_by(new_pids_window, window_end) - sum(admitted_pids))
            ) AS refused_pids,
            max(CASE WHEN phase = 'learning' THEN 1 ELSE 0 END) AS learning
        FROM (
            SELECT *,
                sum(refused_pids) OVER (
                    PARTITION BY principal, broker_id, window_number
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
        GROUP BY principal, broker_id, window_number
    )
)
GROUP BY principal, window_number
ORDER BY principal, window_number;

CREATE OR REPLACE VIEW new_pids_per_day AS
-- How many new producer ids each principal made in the last 24 hours. An id that is refused again within a window counts
-- once; one that is retried at longer intervals counts in each window in which it is refused, since no table holds ids.
-- `refused_pids_at_least` and `refused_pids_at_most` bound the number. Across windows it is an estimate, from how many refused ids are retried within a
-- window: if all are (`refusals` equals `refusals_at_most`), only the largest window counts; if none is (`refusals`
-- equals `refused_pids`), all windows are added up; in between, in proportion.
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
ORDER BY new_pids DESC, principal;

CREATE OR REPLACE VIEW occupancy_now AS
-- What each broker held of producers at the last sweep (KIP-854), largest first. An entry is one producer id on one
-- partition; followers hold the entries of what they replicate, so held_pids determines the memory.
SELECT
    occupancy.broker_id,
    occupancy.topic,
    occupancy.principal,
    occupancy.led_pids,
    occupancy.held_pids,
    CAST(occupancy.held_pids AS DOUBLE) / greatest(1, sweeps.held_pids) AS share_of_broker,
    occupancy.open_transactions,
    occupancy.idle_hours,
    occupancy.estimated_bytes,
    occupancy.expiration_ms,
    occupancy.missing_replicas,
    occupancy.swept_at,
    CAST((unix_millis(now) - unix_millis(occupancy.swept_at)) / 1000.0 AS DOUBLE) AS age_seconds
FROM producer_occupancy AS occupancy
INNER JOIN (
    SELECT
        broker_id,
        swept_at,
        sum(held_pids) AS held_pids,
        row_number() OVER (PARTITION BY broker_id ORDER BY swept_at DESC) AS newest
    FROM producer_occupancy
    GROUP BY broker_id, swept_at
) AS sweeps
    ON sweeps.broker_id = occupancy.broker_id AND sweeps.swept_at = occupancy.swept_at AND sweeps.newest = 1
CROSS JOIN settings
WHERE occupancy.topic IS NOT NULL
ORDER BY occupancy.held_pids DESC, occupancy.broker_id, occupancy.topic, occupancy.principal;

CREATE OR REPLACE VIEW pid_block_burn AS
-- How fast each broker uses up blocks of producer ids (KIP-730). The rate covers the last 24 hours, or the time since the
-- first known block, but at least an hour.
SELECT
    blocks.broker_id,
    count(*) AS blocks,
    CAST(sum(blocks.length) AS BIGINT) AS producer_ids,
    CAST(sum(CASE WHEN blocks.age_ms < 86400000 THEN blocks.length ELSE 0 END) AS DOUBLE)
    / CAST(least(24.0, greatest(1.0, max(history.known_ms) / 3600000.0)) AS DOUBLE) AS pids_per_hour,
    min(blocks.allocated_at) AS first_block_at,
    max(blocks.allocated_at) AS last_block_at,
    count(DISTINCT blocks.broker_epoch) - 1 AS restarts
FROM (
    SELECT *, unix_millis(now) - unix_millis(allocated_at) AS age_ms
    FROM known_pid_blocks
    CROSS JOIN settings
) AS blocks
CROSS JOIN (
    SELECT coalesce(max(unix_millis(now) - unix_millis(allocated_at)), 0) AS known_ms
    FROM known_pid_blocks
    CROSS JOIN settings
) AS history
GROUP BY blocks.broker_id
ORDER BY pids_per_hour DESC, blocks.broker_id;

CREATE OR REPLACE VIEW pid_block_violations AS
-- Blocks of producer ids that break a promise of KIP-730: any row is an alert. `other` is what the block contradicts:
-- the end of the blocks before it, or a newer epoch of its broker.
-- Controllers change and their clocks differ, so order counts only beyond 10 seconds; an overlap always counts.
SELECT
    CASE
        WHEN end_of_lower > first_producer_id THEN 'no overlap'
        WHEN end_of_earlier > first_producer_id THEN 'start >= last end'
    END AS promise,
    broker_id,
    broker_epoch,
    first_producer_id,
    length,
    allocated_at,
    CASE WHEN end_of_lower > first_producer_id THEN end_of_lower ELSE end_of_earlier END AS other
FROM (
    SELECT *,
        max(first_producer_id + length) OVER (
            ORDER BY first_producer_id, allocated_at, length, broker_id, broker_epoch
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS end_of_lower,
        max(first_producer_id + length) OVER (
            ORDER BY unix_millis(allocated_at) RANGE BETWEEN UNBOUNDED PRECEDING AND 10000 PRECEDING
        ) AS end_of_earlier
    FROM known_pid_blocks
)
WHERE end_of_lower > first_producer_id OR end_of_earlier > first_producer_id
UNION ALL
SELECT
    'epoch not stale' AS promise,
    broker_id,
    broker_epoch,
    first_producer_id,
    length,
    allocated_at,
    newest_epoch AS other
FROM (
    SELECT *,
        max(broker_epoch) OVER (
            PARTITION BY broker_id
            ORDER BY unix_millis(allocated_at) RANGE BETWEEN UNBOUNDED PRECEDING AND 10000 PRECEDING
        ) AS newest_epoch
    FROM known_pid_blocks
)
WHERE broker_epoch >= 0 AND broker_epoch < newest_epoch
ORDER BY allocated_at, first_producer_id, promise;

CREATE OR REPLACE VIEW pid_budget AS
-- Who makes the cluster's new producer ids: each principal's share in the last 24 hours, which is how long brokers keep
-- a producer id. Refused ids count once each per window: without enforcement, brokers keep them, too.
SELECT
    counts.principal,
    counts.new_pids,
    counts.admitted_pids,
    counts.refused_pids,
    CAST(counts.new_pids AS DOUBLE) / CAST(greatest(1, sum(counts.new_pids) OVER ()) AS DOUBLE) AS share,
    newest.active_pids,
    newest.quota,
    newest.quota_source
FROM new_pids_per_day AS counts
INNER JOIN (
    SELECT
        principal,
        CAST(sum(CASE WHEN newest = 1 THEN active_pids END) AS BIGINT) AS active_pids,
        max(CASE WHEN newest_of_all = 1 THEN quota END) AS quota,
        max(CASE WHEN newest_of_all = 1 THEN quota_source END) AS quota_source
    FROM (
        SELECT *,
            row_number() OVER (PARTITION BY principal, broker_id ORDER BY window_end DESC) AS newest,
            row_number() OVER (PARTITION BY principal ORDER BY window_end DESC, broker_id DESC) AS newest_of_all
        FROM principal_metrics
        CROSS JOIN settings
        WHERE unix_millis(window_end) > unix_millis(now) - 86400000
    )
    GROUP BY principal
) AS newest ON newest.principal = counts.principal
ORDER BY counts.new_pids DESC, counts.principal;

CREATE OR REPLACE VIEW recent_inits AS
-- The answers to INIT_PRODUCER_ID of the last 24 hours; `client` is the client id without the number or UUID at its
-- end: Java numbers its producers (`producer-17`), and others generate an id each time.
SELECT
    classified_inits.*,
    unix_millis(answered_at) AS at_ms,
    regexp_replace(
        client_id, '([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{12,}|[0-9]+)$', '#'
    ) AS client
FROM classified_inits
CROSS JOIN settings
WHERE unix_millis(answered_at) > unix_millis(now) - 86400000
ORDER BY answered_at;

CREATE OR REPLACE VIEW throttles_per_day AS
-- How often each principal was throttled in the last 24 hours, and when last. A row that only re-dates a throttle after
-- a change of the quota does not count.
SELECT
    principal,
    count(*) AS throttles,
    max(decided_at) AS last_throttled_at
FROM throttle_decisions
CROSS JOIN settings
WHERE
    action = 'THROTTLE'
    AND coalesce(reason <> 'quota_changed', TRUE)
    AND unix_millis(decided_at) > unix_millis(now) - 86400000
GROUP BY principal;

CREATE OR REPLACE VIEW principal_churn AS
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
ORDER BY churn.new_pids DESC, churn.principal, churn.client;

CREATE OR REPLACE VIEW principal_timeline AS
-- A principal over time, a row per metrics interval: new and refused ids, and whether a throttle was in force.
SELECT
    metrics.principal,
    metrics.broker_id,
    metrics.window_end,
    metrics.admitted_pids,
    metrics.refused_pids,
    metrics.late_pids,
    metrics.new_pids_window,
    metrics.rate,
    metrics.quota,
    metrics.tokens,
    metrics.active_pids,
    metrics.state_bytes,
    metrics.phase,
    throttles.principal IS NOT NULL AS throttled
FROM principal_metrics AS metrics
LEFT JOIN (
    SELECT DISTINCT held.principal, held.broker_id, held.window_end
    FROM principal_metrics AS held
    INNER JOIN (
        -- The next decision supersedes this one: it may end the throttle sooner.
        SELECT *,
            lead(decided_at) OVER (
                PARTITION BY principal, broker_id ORDER BY decided_at, batch_id, action
            ) AS next_decided_at
        FROM throttle_decisions
    ) AS decisions
        ON
            decisions.principal = held.principal
            AND coalesce(decisions.broker_id, -1) = coalesce(held.broker_id, -1)
            -- A row is as of the start of a tick: a decision in that tick is later, yet in the row.
            AND decisions.decided_at < held.window_end
            AND decisions.throttled_until > held.as_of
            AND coalesce(decisions.next_decided_at > held.as_of, TRUE)
    WHERE decisions.action = 'THROTTLE'
) AS throttles
    ON
        throttles.principal = metrics.principal
        AND coalesce(throttles.broker_id, -1) = coalesce(metrics.broker_id, -1)
        AND throttles.window_end = metrics.window_end
ORDER BY metrics.principal, metrics.broker_id, metrics.window_end;

CREATE OR REPLACE VIEW quota_headroom AS
-- How far each principal is from its quota, extrapolated from its last row to now: a silent principal writes no row,
-- but its tokens refill by quota / window and its window empties. `burst` is the size of a full bucket; rows of an
-- earlier version lack it, and count as a window's quota. What fits a window is the quota or the burst, if it is larger.
SELECT
    principal,
    broker_id,
    quota,
    burst,
    quota_source,
    new_pids_window,
    greatest(quota, burst) - new_pids_window AS headroom_pids,
    new_pids_window / greatest(quota, burst) AS used_share,
    tokens_now,
    CAST(ceil(greatest(0, -tokens_now) / quota * window_ms) AS BIGINT) AS throttle_time_ms_now,
    rate,
    active_pids,
    phase,
    saturated,
    age_ms / 1000.0 AS age_seconds,
    as_of
FROM (
    SELECT
        principal,
        broker_id,
        quota,
        coalesce(burst, quota) AS burst,
        quota_source,
        CASE WHEN age_ms < window_ms THEN new_pids_window ELSE 0 END AS new_pids_window,
        least(coalesce(burst, quota), tokens + quota * age_ms / window_ms) AS tokens_now,
        window_ms,
        rate,
        active_pids,
        phase,
        saturated,
        age_ms,
        as_of
    FROM (
        SELECT *,
            greatest(0, unix_millis(now) - unix_millis(as_of)) AS age_ms,
            row_number() OVER (PARTITION BY principal, broker_id ORDER BY window_end DESC) AS newest
        FROM principal_metrics
        CROSS JOIN settings
    )
    WHERE newest = 1
)
ORDER BY used_share DESC NULLS LAST, principal;

CREATE OR REPLACE VIEW stream_health AS
-- Whether the stream is alive and complete, in one row.
-- An idle stream writes nothing, so silence alone is no alarm: compare it with the taps (tap_coverage).
SELECT
    metrics.newest_row_at,
    CAST((unix_millis(now) - unix_millis(metrics.newest_row_at)) / 1000.0 AS DOUBLE) AS silent_seconds,
    metrics.principals,
    metrics.saturated_principals,
    metrics.learning_principals,
    (SELECT count(*) FROM current_throttles WHERE throttled_now) AS throttled_now,
    decisions.decisions_hour,
    metrics.refused_hour,
    metrics.late_hour,
    quarantine.quarantined_hour,
    quarantine.quarantined_total,
    metrics.newest_batch_id
FROM settings
CROSS JOIN (
    SELECT
        max(as_of) AS newest_row_at,
        count(DISTINCT CASE WHEN in_hour THEN principal END) AS principals,
        count(DISTINCT CASE WHEN in_hour AND saturated THEN principal END) AS saturated_principals,
        count(DISTINCT CASE WHEN in_hour AND phase = 'learning' THEN principal END) AS learning_principals,
        CAST(coalesce(sum(CASE WHEN in_hour THEN refused_pids END), 0) AS BIGINT) AS refused_hour,
        CAST(coalesce(sum(CASE WHEN in_hour THEN late_pids END), 0) AS BIGINT) AS late_hour,
        max(batch_id) AS newest_batch_id
    FROM (
        SELECT *, unix_millis(window_end) > unix_millis(now) - 3600000 AS in_hour
        FROM principal_metrics
        CROSS JOIN settings
    )
) AS metrics
CROSS JOIN (
    SELECT count(*) AS decisions_hour
    FROM throttle_decisions
    CROSS JOIN settings
    WHERE unix_millis(decided_at) > unix_millis(now) - 3600000
) AS decisions
CROSS JOIN (
    SELECT
        count(CASE WHEN unix_millis(record_timestamp) > unix_millis(now) - 3600000 THEN 1 END) AS quarantined_hour,
        count(*) AS quarantined_total
    FROM quarantined_events
    CROSS JOIN settings
) AS quarantine;

CREATE OR REPLACE VIEW tap_coverage AS
-- Which brokers have no live tap: their offenders are invisible.
-- A tap whose file is not there watches nothing, nor does one whose class is not loaded or sees nothing.
-- Taps report every 10 seconds and reach the table within a minute: after two silent minutes a tap counts as dead.
SELECT
    brokers.broker_id,
    reports.reported_at IS NOT NULL
        AND NOT reports.stopped
        AND coalesce(reports.source, '') <> 'file: not there'
        AND reports.problem IS NULL
        AND unix_millis(now) - unix_millis(reports.reported_at) < 120000 AS watched_now,
    CAST((unix_millis(now) - unix_millis(reports.reported_at)) / 1000.0 AS DOUBLE) AS silent_seconds,
    reports.reported_at,
    brokers.seen_at,
    reports.host,
    reports.source,
    reports.events,
    reports.problem,
    reports.behind_bytes,
    reports.newest_line_at,
    reports.stopped
FROM (
    SELECT broker_id, max(seen_at) AS seen_at
    FROM tap_status
    GROUP BY broker_id
) AS brokers
LEFT JOIN (
    SELECT *, row_number() OVER (PARTITION BY broker_id ORDER BY reported_at DESC, batch_id DESC) AS newest
    FROM tap_status
    WHERE reported_at IS NOT NULL
) AS reports ON reports.broker_id = brokers.broker_id AND reports.newest = 1
CROSS JOIN settings
ORDER BY watched_now, brokers.broker_id;

CREATE OR REPLACE VIEW top_offenders AS
-- Who had the most producer ids refused in the last 24 hours, which is how long brokers keep a producer id. An id
-- counts once, however often it was refused.
SELECT
    counts.principal,
    counts.refused_pids,
    counts.admitted_pids,
    coalesce(throttles.throttles, 0) AS throttles,
    throttles.last_throttled_at,
    throttled.principal IS NOT NULL AS throttled_now
FROM new_pids_per_day AS counts
LEFT JOIN throttles_per_day AS throttles ON throttles.principal = counts.principal
LEFT JOIN (
    SELECT DISTINCT principal FROM current_throttles WHERE throttled_now
) AS throttled ON throttled.principal = counts.principal
ORDER BY refused_pids DESC, admitted_pids DESC, principal;

-- Databricks notebook source
-- MAGIC %md
-- MAGIC # Producer ids: a first look
-- MAGIC
-- MAGIC Kafka's brokers keep state for each producer id (PID) for a day. A client that makes a producer per message, or restarts in
-- MAGIC a loop, fills their memory. `pid-quota` counts new PIDs per principal and throttles who makes too many. Here are the five
-- MAGIC questions that people ask first. Each query is followed by its answer on the demo's tables, so that you know what to expect.
-- MAGIC Attach it to a SQL warehouse, say where the tables are, and run all.

-- COMMAND ----------

CREATE WIDGET TEXT catalog DEFAULT 'main'

-- COMMAND ----------

CREATE WIDGET TEXT schema DEFAULT 'pid_quota'

-- COMMAND ----------

USE IDENTIFIER(:catalog || '.' || :schema)

-- COMMAND ----------

-- MAGIC %md
-- MAGIC ## 1. Who is throttled now?
-- MAGIC
-- MAGIC A throttle ends by itself when `throttled_until` has passed; then the principal leaves this list.

-- COMMAND ----------

SELECT principal, quota, quota_source, refused_pids, CAST(seconds_left AS BIGINT) AS seconds_left
FROM current_throttles
WHERE throttled_now
ORDER BY seconds_left DESC, principal

-- COMMAND ----------

-- MAGIC %md
-- MAGIC | principal | quota | quota_source | refused_pids | seconds_left |
-- MAGIC | --- | --- | --- | --- | --- |
-- MAGIC | User:mallory | 20.0 | user | 235 | 220 |
-- MAGIC
-- MAGIC mallory may make 20 new PIDs an hour, a quota of her own, and was refused 235 so far.

-- COMMAND ----------

-- MAGIC %md
-- MAGIC ## 2. Who made most producer ids in the last 24 hours?
-- MAGIC
-- MAGIC `share` is of all the cluster's new PIDs: what fills the brokers' memory.

-- COMMAND ----------

SELECT principal, new_pids, refused_pids, round(100 * share, 1) AS percent, active_pids
FROM pid_budget
ORDER BY new_pids DESC, principal
LIMIT 5

-- COMMAND ----------

-- MAGIC %md
-- MAGIC | principal | new_pids | refused_pids | percent | active_pids |
-- MAGIC | --- | --- | --- | --- | --- |
-- MAGIC | User:checkout | 1432 | 0 | 46.0 | 292 |
-- MAGIC | User:billing | 573 | 0 | 18.4 | 116 |
-- MAGIC | User:search | 404 | 0 | 13.0 | 83 |
-- MAGIC | User:mallory | 342 | 229 | 11.0 | 336 |
-- MAGIC | User:orders-etl | 256 | 0 | 8.2 | 58 |
-- MAGIC
-- MAGIC The most active is not the one at fault: checkout stays below its quota all day.

-- COMMAND ----------

-- MAGIC %md
-- MAGIC ## 3. Which client is it, and what is wrong with it?
-- MAGIC
-- MAGIC A principal is often many programs. `client` is the client id without its number, and `life_seconds` the
-- MAGIC median time until the same address asks for another id. `pid-quota why PRINCIPAL` diagnoses it and says how to
-- MAGIC fix it.

-- COMMAND ----------

SELECT principal, client, new_pids, CAST(median_life_seconds AS BIGINT) AS life_seconds, hosts
FROM principal_churn
WHERE new_pids >= 100
ORDER BY new_pids DESC, principal, client

-- COMMAND ----------

-- MAGIC %md
-- MAGIC | principal | client | new_pids | life_seconds | hosts |
-- MAGIC | --- | --- | --- | --- | --- |
-- MAGIC | User:mallory | producer-# | 240 | 20 | 1 |
-- MAGIC
-- MAGIC One host asks for a new id every 20 seconds.

-- COMMAND ----------

-- MAGIC %md
-- MAGIC ## 4. Who is next?
-- MAGIC
-- MAGIC How much of its quota each principal has used in the current window.

-- COMMAND ----------

SELECT principal, quota, new_pids_window, round(100 * used_share) AS percent_used, round(tokens_now, 1) AS tokens_now
FROM quota_headroom
WHERE used_share >= 0.1
ORDER BY used_share DESC, principal

-- COMMAND ----------

-- MAGIC %md
-- MAGIC | principal | quota | new_pids_window | percent_used | tokens_now |
-- MAGIC | --- | --- | --- | --- | --- |
-- MAGIC | User:mallory | 20.0 | 168 | 840.0 | 0.8 |
-- MAGIC | User:checkout | 100.0 | 48 | 48.0 | 52.6 |
-- MAGIC | User:billing | 100.0 | 20 | 20.0 | 80.6 |
-- MAGIC | User:search | 100.0 | 15 | 15.0 | 85.6 |
-- MAGIC | User:orders-etl | 100.0 | 10 | 10.0 | 90.6 |
-- MAGIC
-- MAGIC Nobody: after mallory comes checkout with half of its quota.

-- COMMAND ----------

-- MAGIC %md
-- MAGIC ## 5. Can I trust these figures?
-- MAGIC
-- MAGIC The producers of a broker without a working plugin are not counted.

-- COMMAND ----------

SELECT broker_id, watched_now, CAST(silent_seconds AS BIGINT) AS silent_seconds, events
FROM broker_coverage
ORDER BY broker_id

-- COMMAND ----------

-- MAGIC %md
-- MAGIC | broker_id | watched_now | silent_seconds | events |
-- MAGIC | --- | --- | --- | --- |
-- MAGIC | 1 | True | 8 | 5000 |
-- MAGIC | 2 | True | 9 | 5000 |
-- MAGIC | 3 | False | 300 | 5000 |
-- MAGIC
-- MAGIC Not all of them: the plugin of broker 3 has been silent for five minutes.

-- COMMAND ----------

-- MAGIC %md
-- MAGIC ## And then
-- MAGIC
-- MAGIC - Metric views, for dashboards and assistants: `SELECT principal, MEASURE(refused_pids) FROM new_pid_metrics GROUP BY ALL`,
-- MAGIC   `throttle_metrics` (by client id) and `issued_pid_metrics` (by client id and host).
-- MAGIC - Give a principal a quota: `docs/databricks.md`, "Change a quota".
-- MAGIC - Read the views, not the tables: rows of an interval are cumulative, and a throttle ends without a row.

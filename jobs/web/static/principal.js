// One principal's page: its new producer ids against its quota over time, and what was decided about it.

import { chart } from "./charts.js";
import { figures, h, section, table } from "./dom.js";
import { bytes, compact, count, duration, moment, NONE, percent, visible } from "./format.js";

const SPANS = [[0.1, "6 min"], [1, "1 h"], [6, "6 h"], [24, "24 h"], [168, "7 d"], [720, "30 d"]];

export async function principal(get, { name = "", hours = "24", broker = "" }) {
  const page = await get("principal", { name, hours, broker });
  const held = page.throttles.some(([from, to]) => from <= Date.parse(page.now) && Date.parse(page.now) < to);
  return {
    page,
    title: visible(name),
    content: [
      h("h1", {}, visible(name), held && [" ", h("span", { class: "held" }, "throttled")]),
      choices(page),
      current(page, held),
      ...charts(page),
      h("div", { class: "pair" },
        section("Decisions", decisions(page)),
        h("div", {}, section("Clients that were refused", clients(page)), section("Diagnosis, last 24 h", diagnosis(page.churn)),
          section("Client quotas set for it", leases(page)))),
    ],
  };
}

function link(page, change) {
  const query = new URLSearchParams({ name: page.principal, hours: page.hours });
  if (page.broker_id !== null) query.set("broker", page.broker_id);
  for (const [key, value] of Object.entries(change)) query.set(key, value);
  return `#/principal?${query}`;
}

function choices(page) {
  const spans = SPANS.map(([hours, label]) =>
    h("a", { href: link(page, { hours }), "aria-current": hours === page.hours && "true" }, label));
  const brokers = page.brokers.map((id) =>
    h("a", { href: link(page, { broker: id }), "aria-current": id === page.broker_id && "true" }, `broker ${id}`));
  return h("nav", { class: "spans", "aria-label": "Time span" }, spans,
    brokers.length > 0 && [h("span", { class: "quiet" }, "·"), brokers]);
}

function current({ now_row: row, window_seconds }, held) {
  if (!row) return h("p", { class: "empty" }, "No rows in this time.");
  return figures([
    [`New PIDs in ${duration(window_seconds).replace("60 min", "1 h")}`, count(row.new_pids_window),
      row.quota === null ? "no quota" : `${percent(row.used_share)} of ${compact(row.quota)} (${row.quota_source})`, held],
    ["Tokens", count(row.tokens_now), row.throttle_time_ms_now > 0 ? `0 again in ${duration(row.throttle_time_ms_now / 1000)}` : null],
    ["Remembered PIDs", compact(row.active_pids), row.saturated ? "saturated" : row.phase],
    ["Last row", duration(row.age_seconds), "ago"],
  ]);
}

function charts(page) {
  const { timeline: line, counts: news, throttles: spans } = page;
  if (line.at_ms.length === 0) return [];
  // What began lately fills more than the right edge: at least a third of the time is shown.
  const now = Date.parse(page.now);
  const first = line.at_ms[0] - (now - line.at_ms[0]) / 20;
  const range = [Math.max(page.since_ms, Math.min(first, now - page.hours * 1_200_000)), now];
  const common = { times: line.at_ms, spans, range };
  const both = news.admitted_pids.map((admitted, index) => admitted + news.refused_pids[index]);
  const hasQuota = line.quota.some((value) => value !== null);
  return [
    section("New producer ids per window, against the quota", chart({
      ...common, title: "New producer ids per window", height: 240,
      series: [
        { label: "new in window", values: line.new_pids_window, colour: "accent" },
        ...(hasQuota ? [{ label: "quota", values: line.quota, colour: "ink", kind: "dash" }] : []),
      ],
    })),
    section("New producer ids, admitted and refused", chart({
      ...common, times: news.at_ms, title: "New producer ids", height: 170,
      series: [
        { label: "with refused", values: both, colour: "second", kind: "bar" },
        { label: "admitted", values: news.admitted_pids, colour: "accent", kind: "bar" },
      ],
    })),
    h("div", { class: "triple" },
      small("Remembered producer ids", common, { label: "remembered", values: line.active_pids }),
      small("Bloom filter layers", common, { label: "layers", values: line.layers, kind: "step" }),
      small("State", { ...common, unit: bytes }, { label: "size", values: line.state_bytes, kind: "step" })),
  ];
}

function small(title, common, series) {
  return section(title, chart({ ...common, title, height: 150, series: [{ colour: "accent", ...series }] }));
}

function decisions({ decisions: rows, now }) {
  return table([
    { head: "At", cell: (row) => moment(row.decided_at, now) },
    { head: "Action", cell: (row) => row.action.toLowerCase() },
    { head: "For", number: true, cell: (row) => (row.action === "THROTTLE" ? duration(row.throttle_time_ms / 1000) : NONE) },
    { head: "Refused", number: true, cell: (row) => count(row.refused_pids) },
    { head: "Quota", number: true, wide: true, cell: (row) => compact(row.quota) },
  ], rows.slice(0, 20), { empty: "None in this time." });
}

// A decision counts what its episode refused so far, so the newest one says it for the episode.
function clients({ decisions: rows }) {
  const newest = rows.find((row) => row.action === "THROTTLE");
  const found = Object.entries(newest?.client_ids ?? {}).sort((a, b) => b[1] - a[1]);
  return table([
    { head: "Client id", cell: ([client]) => visible(client) },
    { head: "Refused in last episode", number: true, cell: ([, refused]) => count(refused) },
  ], found, { empty: "None in this time." });
}

function diagnosis(rows) {
  return table([
    { head: "Client", cell: (row) => visible(row.client ?? NONE) },
    { head: "Looks like", cell: (row) => (hasJustBegun(row) ? "has just begun" : row.kind) },
    { head: "New PIDs", number: true, cell: (row) => count(row.new_pids) },
    { head: "Per h", number: true, wide: true, cell: (row) => count(row.pids_per_hour) },
  ], rows, { empty: "No requests for producer ids were seen." });
}

// What opens its producers at its start looks the same for half a minute.
function hasJustBegun(row) {
  return row.kind === "healthy" && row.new_pids >= 5 && row.span_seconds <= 30;
}

function leases({ leases: rows, now }) {
  const entity = (row) => [row.entity_user, row.entity_client_id, row.entity_ip].filter(Boolean).map(visible).join(" / ");
  return table([
    { head: "Entity", cell: entity },
    { head: "Quota", cell: (row) => (["hold", "refuse"].includes(row.quota_key) ? row.quota_key : `${row.quota_key} = ${row.new_value ?? NONE}`) },
    { head: "State", cell: (row) => h("span", { class: "nowrap" }, row.in_force_now ? h("span", { class: "held" }, "in force") : row.state) },
    { head: "Until", number: true, wide: true, cell: (row) => moment(row.until, now) },
  ], rows, { empty: "None." });
}

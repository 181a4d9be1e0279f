// The pages about all principals: overview, throttled, headroom, occupancy. Each fetches and returns its elements.

import { chart } from "./charts.js";
import { facts, figures, h, meter, section, table } from "./dom.js";
import { bytes, compact, count, duration, moment, percent, visible } from "./format.js";

const SHOWN = 200;

export function principalLink(name) {
  return h("a", { href: `#/principal?name=${encodeURIComponent(name)}` }, visible(name));
}

// A principal's name, with its broker where each broker has a budget of its own.
function who(row) {
  return row.broker_id === null || row.broker_id === undefined
    ? principalLink(row.principal)
    : [principalLink(row.principal), " ", h("span", { class: "tag" }, `broker ${row.broker_id}`)];
}

const PRINCIPAL = { head: "Principal", cell: who };

export function remedies(missing, names) {
  return names.filter((name) => missing[name]).map((name) => h("p", { class: "remedy" }, missing[name]));
}

export async function overview(get) {
  const [page, worst] = await Promise.all([get("overview"), get("offenders")]);
  return {
    page,
    title: "Overview",
    content: [
      h("h1", {}, "Cluster"),
      ...remedies(page.missing, ["producer_id_metrics"]),
      totals(page),
      section("New producer ids per interval, last 6 h", intervals(page)),
      h("div", { class: "pair" },
        section("Throttled now", throttledTable(page.throttled.slice(0, 8), page.now),
          page.throttled.length > 8 && h("p", {}, h("a", { href: "#/throttled" }, `All ${page.throttled.length}`))),
        section("Stream", health(page.health, page.now), taps(page.taps))),
      section("Top offenders, last 24 h", offenders(worst.offenders, page.now)),
    ],
  };
}

function totals({ totals: sum, per_minute, throttled, health: stream, window_seconds }) {
  const inWindow = `New PIDs in ${duration(window_seconds).replace("60 min", "1 h")}`;
  return figures([
    ["New PIDs per minute", compact(per_minute), "last full interval"],
    [inWindow, compact(sum.new_pids_window), `${compact(sum.active_pids)} remembered`],
    ["Throttled now", count(throttled.length), null, throttled.length > 0],
    ["Above 80 % of quota", count(sum.near_quota), sum.without_quota ? `${count(sum.without_quota)} without quota` : null],
    ["Principals", compact(stream.principals), "seen in 1 h"],
  ]);
}

function intervals({ intervals: data, now, interval_seconds }) {
  if (data.at_ms.length === 0) return h("p", { class: "empty" }, "No rows in the last 6 hours.");
  const end = Date.parse(now);
  // Bars stand on each other: the taller, drawn first, is the sum.
  const both = data.admitted_pids.map((admitted, index) => admitted + data.refused_pids[index]);
  return chart({
    title: `New producer ids per ${duration(interval_seconds)}`,
    times: data.at_ms,
    range: [Math.min(data.at_ms[0] - 1000 * interval_seconds, end - 600_000), Math.max(end, data.at_ms.at(-1))],
    series: [
      { label: "with refused", values: both, colour: "second", kind: "bar" },
      { label: "admitted", values: data.admitted_pids, colour: "accent", kind: "bar" },
    ],
  });
}

function throttledTable(rows, now) {
  return table([
    PRINCIPAL,
    { head: "Ends in", number: true, cell: (row) => h("span", { class: "held" }, duration(row.seconds_left)) },
    { head: "Refused", number: true, cell: (row) => count(row.refused_pids) },
    { head: "Quota", number: true, cell: (row) => compact(row.quota) },
    { head: "Since", number: true, wide: true, cell: (row) => moment(row.decided_at, now) },
  ], rows, { empty: "Nobody is throttled." });
}

function health(stream, now) {
  return facts([
    ["Newest row", stream.newest_row_at ? `${moment(stream.newest_row_at, now)} (${duration(stream.silent_seconds)} ago)` : "none"],
    ["Refused PIDs, 1 h", count(stream.refused_hour)],
    ["Decisions, 1 h", count(stream.decisions_hour)],
    ["Late PIDs, 1 h", count(stream.late_hour)],
    ["Without a known principal, 1 h", percent(stream.unknown_share)],
    ["Learning / saturated principals", `${count(stream.learning_principals)} / ${count(stream.saturated_principals)}`],
    ["Quarantined records, 1 h / all", `${count(stream.quarantined_hour)} / ${count(stream.quarantined_total)}`],
  ]);
}

function taps(rows) {
  if (rows.length === 0) return h("p", { class: "empty" }, "No tap has reported in 24 h.");
  return table([
    { head: "Broker", cell: (row) => `${row.broker_id}` },
    { head: "Tap", cell: (row) => (row.watched_now ? "watching" : row.stopped ? "stopped" : "silent") },
    { head: "Last report", number: true, cell: (row) => (row.reported_at ? `${duration(row.silent_seconds)} ago` : "never") },
    { head: "Unplaced", number: true, cell: (row) => percent(row.unplaced_share) },
  ], rows);
}

function offenders(rows, now) {
  return table([
    PRINCIPAL,
    { head: "Refused", number: true, cell: (row) => count(row.refused_pids) },
    { head: "Admitted", number: true, cell: (row) => count(row.admitted_pids) },
    { head: "Share of new", number: true, cell: (row) => percent(row.share) },
    { head: "Throttles", number: true, wide: true, cell: (row) => count(row.throttles) },
    { head: "Last", number: true, wide: true, cell: (row) => moment(row.last_throttled_at, now) },
    { head: "Quota", number: true, wide: true, cell: (row) => compact(row.quota) },
  ], rows, { empty: "No new producer ids in the last 24 hours." });
}

export async function throttled(get) {
  const page = await get("overview");
  const clients = (row) => Object.entries(row.client_ids ?? {}).sort((a, b) => b[1] - a[1]).slice(0, 3)
    .map(([client, refused]) => h("div", {}, `${visible(client)} `, h("small", {}, count(refused))));
  return {
    page,
    title: "Throttled",
    content: [
      h("h1", {}, "Throttled now"),
      table([
        PRINCIPAL,
        { head: "Ends in", number: true, cell: (row) => h("span", { class: "held" }, duration(row.seconds_left)) },
        { head: "Refused", number: true, cell: (row) => count(row.refused_pids) },
        { head: "Quota", number: true, cell: (row) => compact(row.quota) },
        { head: "Tokens", number: true, wide: true, cell: (row) => count(row.tokens_now) },
        { head: "Since", number: true, wide: true, cell: (row) => moment(row.decided_at, page.now) },
        { head: "Until", number: true, wide: true, cell: (row) => moment(row.throttled_until, page.now) },
        { head: "Client ids (refused)", wide: true, cell: clients },
      ], page.throttled, { empty: "Nobody is throttled." }),
    ],
  };
}

export async function headroom(get, { q = "", all = "" }) {
  const page = await get("headroom");
  const wanted = q.toLowerCase();
  const found = page.principals.filter((row) => row.principal.toLowerCase().includes(wanted));
  const shown = all ? found : found.slice(0, SHOWN);
  const more = found.length - shown.length;
  const everything = `#/headroom?all=1${q ? `&q=${encodeURIComponent(q)}` : ""}`;
  return {
    page,
    title: "Headroom",
    matches: found.map((row) => row.principal),
    content: [
      h("h1", {}, q ? `Principals with “${visible(q)}”` : "Quota headroom"),
      h("p", { class: "quiet" }, `${count(found.length)} of the last 24 h, the nearest to its quota first.`,
        page.complete ? "" : " There are more: `pid-quota sql --view quota_headroom` has all."),
      ...remedies(page.missing, ["producer_id_metrics"]),
      table([
        PRINCIPAL,
        { head: "Used", number: true, cell: (row) => (row.quota === null ? "no quota" : percent(row.used_share)) },
        { head: "", wide: true, cell: (row) => (row.quota === null ? "" : meter(row.used_share, row.throttled_now)) },
        { head: "New in window", number: true, cell: (row) => count(row.new_pids_window) },
        { head: "Quota", number: true, cell: (row) => compact(row.quota) },
        { head: "Tokens", number: true, wide: true, cell: (row) => count(row.tokens_now) },
        { head: "Remembered", number: true, wide: true, cell: (row) => compact(row.active_pids) },
        { head: "Last row", number: true, wide: true, cell: (row) => `${duration(row.age_seconds)} ago` },
        { head: "State", wide: true, cell: state },
      ], shown, { empty: q ? "No principal of the last 24 hours has that in its name." : "No principals yet." }),
      more > 0 && h("p", {}, h("a", { href: everything }, `Show ${count(more)} more`)),
    ],
  };
}

function state(row) {
  if (row.throttled_now) return h("span", { class: "held" }, "throttled");
  return row.saturated ? "saturated" : row.phase;
}

export async function occupancy(get) {
  const page = await get("occupancy");
  const title = "Occupancy";
  const filled = page.rows.length > 0;
  if (!filled) {
    return { page, title, content: [h("h1", {}, "What brokers hold"), howToFill(page.missing.producer_occupancy)] };
  }
  const tones = ["accent", "second", "ink", "quiet"];
  const series = Object.entries(page.sweeps.held_pids)
    .map(([broker, values], index) => ({ label: `broker ${broker}`, values, colour: tones[index % 4], kind: "line" }));
  return {
    page,
    title,
    content: [
      h("h1", {}, "What brokers hold"),
      h("p", { class: "quiet" }, "An entry is one producer id on one partition; followers hold those they replicate."),
      section("Brokers", table([
        { head: "Broker", cell: (row) => `${row.broker_id}` },
        { head: "Held", number: true, cell: (row) => compact(row.held_pids) },
        { head: "Led", number: true, cell: (row) => compact(row.led_pids) },
        { head: "About", number: true, cell: (row) => bytes(row.estimated_bytes) },
        { head: "In transaction", number: true, wide: true, cell: (row) => count(row.open_transactions) },
        { head: "Expires after", number: true, wide: true, cell: (row) => duration(row.expiration_ms / 1000) },
        { head: "Asked", number: true, cell: (row) => `${duration(row.age_seconds)} ago` },
      ], page.brokers)),
      page.sweeps.at_ms.length > 1 &&
        section("Held entries, last 7 d", chart({ title: "Held entries", times: page.sweeps.at_ms, series })),
      page.failovers.length > 0 && section("If a broker dies", failovers(page.failovers)),
      section("By broker, topic and principal", table([
        { head: "Principal", cell: (row) => principalLink(row.principal) },
        { head: "Topic", cell: (row) => visible(row.topic) },
        { head: "Broker", number: true, cell: (row) => `${row.broker_id}` },
        { head: "Held", number: true, cell: (row) => compact(row.held_pids) },
        { head: "Led", number: true, wide: true, cell: (row) => compact(row.led_pids) },
        { head: "Of broker", number: true, wide: true, cell: (row) => percent(row.share_of_broker) },
      ], page.rows), page.more_rows > 0 && h("p", { class: "quiet" }, `${count(page.more_rows)} smaller rows are not shown.`)),
    ],
  };
}

function howToFill(problem) {
  return h("div", { class: "remedy" },
    h("p", {}, problem ?? "producer_occupancy has no rows of the last 7 days."),
    h("p", {}, "To fill it, let this run now and then, from any host that reaches the brokers:"),
    h("p", {}, h("code", {}, "pid-quota occupancy --bootstrap-servers HOST:9092 --tables TABLES")));
}

function failovers(deaths) {
  const rows = deaths.flatMap((death) => death.survivors.map((survivor) => ({ ...death, ...survivor })));
  return [
    h("p", { class: "quiet" }, "What each survivor could lead at most. Memory does not move: followers hold these entries " +
      "already. pid-quota occupancy asks for the exact heirs."),
    table([
      { head: "Dies", cell: (row) => `broker ${row.dead}` },
      { head: "It leads", number: true, wide: true, cell: (row) => compact(row.led_pids) },
      { head: "Survivor", cell: (row) => `broker ${row.broker_id}` },
      { head: "Leads now", number: true, cell: (row) => compact(row.led_before) },
      { head: "Then, at most", number: true, cell: (row) => compact(row.led_at_most) },
    ], rows),
  ];
}

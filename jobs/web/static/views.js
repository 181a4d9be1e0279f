// The pages about all principals: overview, throttled, headroom, and the one for a wrong address. Each fetches and
// returns its elements.

import { chart } from "./charts.js";
import { breakable, facts, figures, h, meter, reading, section, spans, table } from "./dom.js";
import { compact, count, duration, moment, NONE, percent, plural, visible } from "./format.js";
import { HOLD } from "./holds.js";

const SHOWN = 200;

export function principalLink(name) {
  return h("a", { href: `#/principal?name=${encodeURIComponent(name)}` }, breakable(visible(name)));
}

export const PRINCIPAL = { head: "Principal", by: (row) => row.principal, cell: (row) => principalLink(row.principal) };

// The text for an empty table: `calm` if the stream runs, else that the state is unknown.
export function none({ fresh }, calm) {
  return fresh.stale ? `Unknown: ${fresh.warning.split(": is")[0]}.` : calm;
}

export function remedies(missing, names) {
  return names.filter((name) => missing[name]).map((name) => h("p", { class: "remedy" }, missing[name]));
}

const OVERVIEW_SPANS = [[1, "1 h"], [6, "6 h"], [24, "24 h"], [168, "7 d"]];

// Each part shows as soon as its answer is there.
export async function overview(get, { hours = "6" }, { early }) {
  const asked = { page: get("overview"), activity: get("activity", { hours }), worst: get("offenders") };
  const found = {};
  early(overviewParts(found, hours));
  await Promise.all(Object.entries(asked).map(async ([name, answer]) => {
    found[name] = await answer;
    if (Object.keys(found).length < 3) early(overviewParts(found, hours));
  }));
  return { page: found.page, title: "Overview", news: throttledNews(found.page), content: overviewParts(found, hours) };
}

function overviewParts({ page, activity, worst }, hours) {
  return [
    h("h1", {}, "Overview"),
    ...(page ? remedies(page.missing, ["producer_id_metrics"]) : []),
    page ? totals(page) : reading("producer_id_metrics and throttle_decisions"),
    section("Throttled now", page ? [throttledTable(page, { name: "overview throttled", limit: 8 }),
      page.throttled.length > 8 && h("p", {}, h("a", { href: "#/throttled" }, `All ${page.throttled.length}`))]
      : reading("throttle_decisions")),
    section("New producer ids", spans(OVERVIEW_SPANS, Number(hours), (span) => `#/?hours=${span}`),
      activity ? intervals(activity) : h("div", { class: "chart" }, reading("producer_id_metrics"))),
    section("Top offenders, last 24 h", worst ? offenders(worst) : reading("producer_id_metrics and throttle_decisions")),
    h("div", { class: "pair" },
      section("Stream", page ? health(page) : reading("producer_id_metrics and quarantined_events")),
      section("Brokers", page ? brokers(page.brokers) : reading("broker_status"))),
  ];
}

function throttledNews(page) {
  return page.fresh.stale ? "Throttled principals are unknown" : `${plural(page.throttled.length, "principal")} throttled`;
}

// The present totals; they are unknown if the stream is silent.
function totals({ totals: sum, per_minute: perMinute, throttled, health: stream, window_seconds: windowSeconds, interval_seconds: interval, fresh }) {
  const inWindow = `New PIDs in ${duration(windowSeconds).replace("60 min", "1 h")}`;
  const now = (value, note) => (fresh.stale ? [NONE, "not known"] : [value, note]);
  return figures([
    ["New PIDs per minute", ...now(compact(perMinute), `last full ${interval > 60 ? "interval" : "minute"}`)],
    [inWindow, ...now(compact(sum.new_pids_window), `${compact(sum.active_pids)} remembered`)],
    ["Throttled now", ...now(count(throttled.length), throttled.length ? `${count(throttled.filter((row) => row.hold === "held").length)} held by brokers` : null), !fresh.stale && throttled.length > 0],
    ["Above 80 % of quota", ...now(count(sum.near_quota), sum.without_quota ? `${count(sum.without_quota)} without quota` : null)],
    ["Principals", ...now(compact(stream.principals), "seen in 1 h")],
  ]);
}

// A plot begins with the first row: on a young cluster, the time before it would be most of the plot.
export function shownFrom(page, firstMs, least = 60_000) {
  const now = Date.parse(page.now);
  return Math.max(page.since_ms, Math.min(firstMs, now - least));
}

// Words for a plot that begins after the time asked for.
export function since(page, begin) {
  const late = begin - page.since_ms > (Date.parse(page.now) - page.since_ms) / 20;
  return late ? `, since ${moment(new Date(begin).toISOString(), page.now)}, the first row` : "";
}

function intervals(page) {
  const { intervals: data, now, step_seconds: step, fresh } = page;
  if (data.at_ms.length === 0) return h("p", { class: "empty" }, none(page, "No rows in this period."));
  // Each bar ends at its time.
  const begin = shownFrom(page, data.at_ms[0] - 1000 * step);
  const both = data.admitted_pids.map((admitted, index) => admitted + data.refused_pids[index]);
  const per = `per ${duration(step).replace("60 s", "minute").replace("60 min", "hour")}`;
  return [h("p", { class: "quiet" }, per, since(page, begin)), chart({
    title: `New producer ids ${per}`,
    times: data.at_ms,
    range: [begin, Date.parse(now)],
    unknown: fresh.stale ? [Date.parse(fresh.last_row_at), Date.parse(now)] : null,
    // Bars overlap: the taller one, drawn first, is the sum, and the legend shows its upper part.
    series: [
      { label: "refused", values: both, told: data.refused_pids, colour: "second", kind: "bar" },
      { label: "admitted", values: data.admitted_pids, colour: "accent", kind: "bar" },
    ],
  })];
}

const refused = (field) => (row) => Object.entries(row[field] ?? {}).sort((a, b) => b[1] - a[1]).slice(0, 3)
  .map(([name, pids]) => h("div", {}, breakable(`${visible(name)}\u00a0`), h("small", {}, count(pids))));

function throttledTable(page, options) {
  const { now } = page;
  return table([
    PRINCIPAL,
    { head: "Ends in", number: true, by: (row) => row.seconds_left, cell: (row) => h("span", { class: "held" }, duration(row.seconds_left)) },
    HOLD(now),
    { head: "Refused", number: true, by: (row) => row.refused_pids, cell: (row) => count(row.refused_pids) },
    { head: "Quota", number: true, wide: true, by: (row) => row.quota, cell: (row) => compact(row.quota) },
    { head: "Held requests", number: true, wide: true, spare: true, by: (row) => row.held_requests, cell: (row) => count(row.held_requests) },
    { head: "Tokens", number: true, wide: true, spare: true, by: (row) => row.tokens_now, cell: (row) => (page.fresh.stale ? NONE : count(row.tokens_now)) },
    { head: "Since", number: true, wide: true, by: (row) => row.decided_at, cell: (row) => moment(row.decided_at, now) },
    { head: "Until", number: true, wide: true, spare: true, by: (row) => row.throttled_until, cell: (row) => moment(row.throttled_until, now) },
    { head: "Looks like", wide: true, by: (row) => row.looks_like, cell: (row) => visible(row.looks_like ?? NONE) },
    { head: "Client ids (refused)", wide: true, cell: refused("client_ids") },
    { head: "Addresses (refused)", wide: true, cell: refused("addresses") },
  ], page.throttled, { empty: none(page, "Nobody is throttled."), ...options });
}

function health({ health: stream, now }) {
  return facts([
    ["Newest row", stream.newest_row_at ? `${moment(stream.newest_row_at, now)} (${duration(stream.silent_seconds)} ago)` : "none"],
    ["Refused PIDs, 1 h", count(stream.refused_hour)],
    ["Decisions, 1 h", count(stream.decisions_hour)],
    ["Late PIDs, 1 h", count(stream.late_hour)],
    ["Learning / saturated principals", `${count(stream.learning_principals)} / ${count(stream.saturated_principals)}`],
    ["Quarantined records, 1 h / all", `${count(stream.quarantined_hour)} / ${count(stream.quarantined_total)}`],
  ]);
}

function brokers(rows) {
  if (rows.length === 0) return h("p", { class: "empty" }, "No plugin has reported in 24 h.");
  return table([
    { head: "Broker", by: (row) => row.broker_id, cell: (row) => `${row.broker_id}` },
    { head: "Plugin", by: pluginState, cell: pluginState },
    { head: "Last report", number: true, by: (row) => row.silent_seconds, cell: (row) => (row.reported_at ? `${duration(row.silent_seconds)} ago` : "never") },
    { head: "Waiting", number: true, wide: true, by: (row) => row.waiting_pids, cell: (row) => count(row.waiting_pids) },
    { head: "Dropped", number: true, wide: true, by: (row) => row.dropped_events, cell: (row) => count(row.dropped_events) },
    { head: "Problem", cell: (row) => visible(row.problem ?? "") },
  ], rows, { name: "brokers" });
}

// `missing`: the cluster has this broker, but no plugin of it has reported.
function pluginState(row) {
  if (row.watched_now) return "watching";
  if (!row.reported_at) return "missing";
  return row.stopped ? "stopped" : row.problem ? "blind" : "silent";
}

function offenders(page) {
  const { offenders: rows, now } = page;
  return table([
    PRINCIPAL,
    { head: "Refused", number: true, by: (row) => row.refused_pids, cell: (row) => count(row.refused_pids) },
    { head: "Admitted", number: true, by: (row) => row.admitted_pids, cell: (row) => count(row.admitted_pids) },
    { head: "Share of new", number: true, wide: true, by: (row) => row.share, cell: (row) => percent(row.share) },
    { head: "Remembered", number: true, wide: true, by: (row) => row.active_pids, cell: (row) => compact(row.active_pids) },
    { head: "Throttles", number: true, wide: true, by: (row) => row.throttles, cell: (row) => count(row.throttles) },
    { head: "Last", number: true, wide: true, by: (row) => row.last_throttled_at, cell: (row) => moment(row.last_throttled_at, now) },
    { head: "Quota", number: true, wide: true, by: (row) => row.quota, cell: (row) => compact(row.quota) },
  ], rows, { name: "offenders", empty: none(page, "No new producer ids in the last 24 hours.") });
}

export async function throttled(get) {
  const page = await get("overview");
  return {
    page,
    title: "Throttled",
    news: throttledNews(page),
    content: [h("h1", {}, "Throttled now"), throttledTable(page, { name: "throttled" })],
  };
}

export async function headroom(get, { q = "", all = "" }) {
  const page = await get("headroom");
  const wanted = q.toLowerCase();
  const found = page.principals.filter((row) => row.principal.toLowerCase().includes(wanted));
  const limit = all ? Infinity : SHOWN;
  const more = Math.max(0, found.length - limit);
  // Of a stream that ended nobody knows what came since the last row.
  const now = (row, value) => (page.fresh.stale && row.age_seconds > page.window_seconds ? null : value);
  const used = (row) => now(row, row.used_share);
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
        { head: "Used", number: true, by: used, cell: (row) => (row.quota === null ? "no quota" : percent(used(row))) },
        { head: "Against the quota", wide: true, by: used, cell: (row) => (row.quota === null ? "" : meter(used(row), row.throttled_now)) },
        { head: "New in window", number: true, by: (row) => now(row, row.new_pids_window), cell: (row) => count(now(row, row.new_pids_window)) },
        { head: "Quota", number: true, by: (row) => row.quota, cell: (row) => compact(row.quota) },
        { head: "Tokens", number: true, wide: true, by: (row) => row.tokens_now, cell: (row) => (page.fresh.stale ? NONE : count(row.tokens_now)) },
        { head: "Remembered", number: true, wide: true, by: (row) => row.active_pids, cell: (row) => compact(row.active_pids) },
        { head: "Last row", number: true, wide: true, by: (row) => row.age_seconds, cell: (row) => `${duration(row.age_seconds)} ago` },
        { head: "State", wide: true, by: (row) => (row.throttled_now ? "throttled" : row.phase), cell: state },
      ], found, { name: "headroom", limit, empty: q ? "No principal of the last 24 hours has that in its name." : none(page, "No principals yet.") }),
      found.length > 0 && h("p", { class: "quiet" }, "The mark is the quota; above it the scale is logarithmic, and the bar ends at ten times the quota."),
      more > 0 && h("p", {}, h("a", { href: everything }, `Show ${count(more)} more`)),
    ],
  };
}

function state(row) {
  if (row.throttled_now) return h("span", { class: "held" }, "throttled");
  return row.saturated ? "saturated" : row.phase;
}

// An address that leads nowhere: say so, and where it may have been meant to lead.
export async function nowhere(name, pages) {
  const close = pages.filter((page) => page !== "principal")
    .sort((one, other) => distance(name, one) - distance(name, other))
    .filter((page, index) => index === 0 && distance(name, page) < 4);
  const link = (page) => h("a", { href: `#/${page}` }, page[0].toUpperCase() + page.slice(1));
  return {
    page: {},
    title: "No such page",
    content: [
      h("h1", {}, `There is no page “${visible(name)}”`),
      close.length > 0 ? h("p", {}, "Did you mean ", link(close[0]), "?") : h("p", {}, "Start at the ", link("overview"), "."),
    ],
  };
}

// How many letters to change, to add or to drop.
function distance(one, other) {
  let row = [...Array(other.length + 1).keys()];
  for (const [at, letter] of [...one].entries()) {
    const next = [at + 1];
    for (let to = 0; to < other.length; to += 1) {
      next.push(Math.min(next[to] + 1, row[to + 1] + 1, row[to] + Number(letter !== other[to])));
    }
    row = next;
  }
  return row.at(-1);
}

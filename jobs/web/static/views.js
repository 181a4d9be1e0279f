// The pages about all principals: overview, throttled, headroom, and the one for a wrong address. Each fetches and
// returns its elements.

import { chart } from "./charts.js";
import { breakable, column, facts, figures, h, meter, reading, section, spans, table } from "./dom.js";
import { ago, at, compact, count, duration, moment, NONE, percent, plural, text, visible } from "./format.js";
import { HOLD } from "./holds.js";

const SHOWN = 200;

export function principalLink(name) {
  return h("a", { href: `#/principal?name=${encodeURIComponent(name)}` }, breakable(visible(name)));
}

export const PRINCIPAL = column("Principal", "principal", principalLink);

// The text for an empty table: `calm` if the stream runs, else that the state is unknown.
export function none({ fresh }, calm) {
  return fresh.stale ? `Unknown: ${fresh.warning.split(": is")[0]}.` : calm;
}

export function remedies(missing, names) {
  return names.filter((name) => missing[name]).map((name) => h("p", { class: "remedy" }, missing[name]));
}

const OVERVIEW_SPANS = [[1, "1 h"], [6, "6 h"], [24, "24 h"], [168, "7 d"]];

// Each part shows as soon as its answer is there.
export async function overview(get, { hours = "6" }, early) {
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
  const now = (value, note) => (fresh.stale ? [NONE, "not known"] : [value, note]);
  return figures([
    ["New PIDs per minute", ...now(compact(perMinute), `last full ${interval > 60 ? "interval" : "minute"}`)],
    [`New PIDs in ${duration(windowSeconds)}`, ...now(compact(sum.new_pids_window), `${compact(sum.active_pids)} remembered`)],
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
  const per = `per ${duration(step)}`.replace("60 s", "minute").replace(" 1 h", " hour");
  return [h("p", { class: "quiet" }, per, since(page, begin)), chart({
    title: `New producer ids ${per}`,
    times: data.at_ms,
    range: [begin, Date.parse(now)],
    unknown: fresh.stale ? [Date.parse(fresh.last_row_at), Date.parse(now)] : null,
    series: newIds(data),
  })];
}

// New producer ids as bars that overlap: the taller one, drawn first, is the sum, and the legend shows its upper part.
export function newIds({ admitted_pids: admitted, refused_pids: refused }) {
  const both = admitted.map((each, index) => each + refused[index]);
  return [{ label: "refused", values: both, told: refused, colour: "second", kind: "bar" }, { label: "admitted", values: admitted, colour: "accent", kind: "bar" }];
}

const refused = (field) => (row) => Object.entries(row[field] ?? {}).sort((a, b) => b[1] - a[1]).slice(0, 3)
  .map(([name, pids]) => h("div", {}, breakable(`${visible(name)}\u00a0`), h("small", {}, count(pids))));

function throttledTable(page, options) {
  const { now } = page;
  return table([
    PRINCIPAL,
    column("Ends in", "seconds_left", (value) => h("span", { class: "held" }, duration(value)), "number"),
    HOLD(now),
    column("Refused", "refused_pids", count, "number"),
    column("Quota", "quota", compact, "number wide"),
    column("Held requests", "held_requests", count, "number wide spare"),
    column("Tokens", "tokens_now", (value) => (page.fresh.stale ? NONE : count(value)), "number wide spare"),
    column("Since", "decided_at", at(now), "number wide"),
    column("Until", "throttled_until", at(now), "number wide spare"),
    column("Looks like", "looks_like", text, "wide"),
    { head: "Client ids (refused)", kind: "wide", cell: refused("client_ids") },
    { head: "Addresses (refused)", kind: "wide", cell: refused("addresses") },
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
    column("Broker", "broker_id"),
    { head: "Plugin", by: pluginState, cell: pluginState },
    column("Last report", "silent_seconds", (value, row) => (row.reported_at ? ago(value) : "never"), "number"),
    column("Waiting", "waiting_pids", count, "number wide"),
    column("Dropped", "dropped_events", count, "number wide"),
    column("Problem", "problem", (value) => visible(value ?? "")),
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
    column("Refused", "refused_pids", count, "number"),
    column("Admitted", "admitted_pids", count, "number"),
    column("Share of new", "share", percent, "number wide"),
    column("Remembered", "active_pids", compact, "number wide"),
    column("Throttles", "throttles", count, "number wide"),
    column("Last", "last_throttled_at", at(now), "number wide"),
    column("Quota", "quota", compact, "number wide"),
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
        { head: "Used", kind: "number", by: used, cell: (row) => (row.quota === null ? "no quota" : percent(used(row))) },
        { head: "Against the quota", kind: "wide", by: used, cell: (row) => (row.quota === null ? "" : meter(used(row), row.throttled_now)) },
        { head: "New in window", kind: "number", by: (row) => now(row, row.new_pids_window), cell: (row) => count(now(row, row.new_pids_window)) },
        column("Quota", "quota", compact, "number"),
        column("Tokens", "tokens_now", (value) => (page.fresh.stale ? NONE : count(value)), "number wide"),
        column("Remembered", "active_pids", compact, "number wide"),
        column("Last row", "age_seconds", ago, "number wide"),
        { head: "State", kind: "wide", by: (row) => (row.throttled_now ? "throttled" : row.phase), cell: state },
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

// An address that leads nowhere.
export async function nowhere(name) {
  return {
    page: {},
    title: "No such page",
    content: [h("h1", {}, `There is no page “${visible(name)}”`), h("p", {}, "Start at the ", h("a", { href: "#/" }, "Overview"), ".")],
  };
}

// One principal's page: its new producer ids against its quota over time, and what was decided about it.

import { chart } from "./charts.js";
import { copyable } from "./copy.js";
import { breakable, column, disclosure, facts, figures, h, section, spans, table } from "./dom.js";
import { bytes, compact, count, duration, moment, NONE, percent, text, visible } from "./format.js";
import { decisionsTable } from "./history.js";
import { holdWords, isWritten, marked } from "./holds.js";
import { newIds, none, principalLink, shownFrom, since } from "./views.js";

const SPANS = [[0.1, "6 min"], [1, "1 h"], [6, "6 h"], [24, "24 h"], [168, "7 d"], [720, "30 d"]];

export async function principal(get, { name = "", hours = "24" }) {
  const page = await get("principal", { name, hours });
  const held = page.throttles.some(([from, to]) => from <= Date.parse(page.now) && Date.parse(page.now) < to);
  if (page.similar) return unseen(page);
  const all = (path) => h("p", {}, h("a", { href: `#/${path}?${new URLSearchParams({ hours: 720, name })}` }, `All ${path} of 30 days`));
  return {
    page,
    title: visible(name),
    news: held ? "throttled" : "",
    content: [
      h("h1", {}, breakable(visible(name)), held && [" ", h("span", { class: "held" }, "throttled")]),
      choices(page),
      current(page, held),
      section("Diagnosis, last 24 h", page.held && heldLine(page), ...diagnosis(page.churn)),
      ...charts(page),
      h("div", { class: "pair" }, section("Decisions", decisionsTable(page, { name: "its decisions", limit: 10 }), all("decisions")),
        h("div", {},
          section("Clients that were refused", refused(page, "client_ids", "Client id", "None in this period.")),
          section("Where refused producer ids came from", refused(page, "addresses", "Address", "No address is known.")))),
      section("Hold", hold(page), all("holds")),
    ],
  };
}

// No row names it: most often it is mistyped, or older than the time that is shown.
function unseen(page) {
  const days = page.hours < 720;
  return {
    page,
    title: visible(page.principal),
    content: [
      h("h1", {}, breakable(visible(page.principal))),
      choices(page),
      h("p", { class: "empty" }, none(page, "No row of this period contains this name.")),
      page.similar.length > 0 && h("p", {}, "Did you mean ", page.similar.flatMap((name, index) => [index ? ", " : "", principalLink(name)]), "?"),
      days && h("p", {}, "Or look further back: ", h("a", { href: link(page, { hours: 720 }) }, "30 d"), "."),
    ],
  };
}

function link(page, change) {
  const query = new URLSearchParams({ name: page.principal, hours: page.hours });
  for (const [key, value] of Object.entries(change)) query.set(key, value);
  return `#/principal?${query}`;
}

function choices(page) {
  return spans(SPANS, page.hours, (hours) => link(page, { hours }));
}

function current(page, held) {
  const { now_row: row, window_seconds, fresh } = page;
  if (!row) return h("p", { class: "empty" }, none(page, "No rows in this period."));
  return figures([
    [`New PIDs in ${duration(window_seconds)}`, count(row.new_pids_window),
      row.quota === null ? "no quota" : `${percent(row.used_share)} of ${compact(row.quota)} (${row.quota_source})`, held],
    ["Tokens", fresh.stale ? NONE : count(row.tokens_now), fresh.stale ? "not known" : row.throttle_time_ms_now > 0 ? `0 again in ${duration(row.throttle_time_ms_now / 1000)}` : null],
    ["Remembered PIDs", compact(row.active_pids), row.saturated ? "saturated" : row.phase],
    ["Last row", duration(row.age_seconds), "ago"],
  ]);
}

function charts(page) {
  const { counts: news, throttles: spans, fresh } = page;
  const line = fresh.stale ? before(page.timeline, Date.parse(fresh.last_row_at)) : page.timeline;
  if (line.at_ms.length === 0) return [];
  const now = Date.parse(page.now);
  const range = [shownFrom(page, Math.min(line.at_ms[0], news.at_ms[0] - 1000 * page.step_seconds)), now];
  const common = { times: line.at_ms, spans, range, unknown: fresh.stale ? [Date.parse(fresh.last_row_at), now] : null };
  const hasQuota = line.quota.some((value) => value !== null);
  return [
    section(`New producer ids per window, against the quota${since(page, range[0])}`, chart({
      ...common, title: "New producer ids per window", height: 240,
      series: [
        { label: "new in window", values: line.new_pids_window, colour: "accent" },
        ...(hasQuota ? [{ label: "quota", values: line.quota, colour: "ink", kind: "dash" }] : []),
      ],
    })),
    section("New producer ids, admitted and refused", chart({
      ...common, times: news.at_ms, title: "New producer ids", height: 170, series: newIds(news),
    })),
    h("div", { class: "triple" },
      small("Remembered producer ids", common, { label: "remembered", values: line.active_pids }),
      small("Bloom filter layers", common, { label: "layers", values: line.layers, kind: "step" }),
      small("State", { ...common, unit: bytes }, { label: "size", values: line.state_bytes, kind: "step" })),
  ];
}

// The lines up to a time: what follows is drawn from silence, which tells nothing of a stream that ended.
function before(columns, end) {
  const kept = columns.at_ms.filter((at) => at <= end).length;
  return Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, values.slice(0, kept)]));
}

function small(title, common, series) {
  return section(title, chart({ ...common, title, height: 150, series: [{ colour: "accent", ...series }] }));
}

// A decision counts what its episode refused so far, so the newest one says it for the episode.
function refused({ decisions: rows }, field, head, empty) {
  const newest = rows.find((row) => row.action === "THROTTLE");
  const found = Object.entries(newest?.[field] ?? {}).sort((a, b) => b[1] - a[1]);
  return table([
    { head, cell: ([name]) => visible(name) },
    { head: "Refused in last episode", kind: "number", cell: ([, pids]) => count(pids) },
  ], found, { empty });
}

// What brokers do about it. The page of a principal that is not held says so, too.
function hold({ hold: row, now, ...page }) {
  if (!row) return h("p", { class: "empty" }, none(page, "It is not on hold."));
  return [facts([
    ["Hold", marked(row, holdWords(row, now))],
    ["Until", moment(row.hold_ends ?? row.released_until, now)],
    ["Requests for new producer ids held / let in", `${count(row.held_requests)} / ${count(row.let_in)}`],
    ["Reason", text(row.hold_reason)],
    ["Written by", text(row.writer)],
  ]), isWritten(row) && copyable(`releases ${visible(page.principal)}`, page.release_command)];
}

// What it costs the brokers, as `pid-quota why` tells it.
function heldLine({ held, now }) {
  return h("p", { class: "quiet" }, `Entries that brokers hold (producer ids × partitions × replicas): ${count(held.entries)}, ` +
    `about ${bytes(held.estimated_bytes)} of heap, swept ${moment(held.swept_at, now)}.`);
}

// Each client with what it does, how that is known, and the fix, as `pid-quota why` tells it.
function diagnosis(rows) {
  if (rows.length === 0) return [h("p", { class: "empty" }, "No requests for producer ids were seen.")];
  const ill = rows.filter((row) => row.fixes.length > 0);
  return [
    table([
      column("Client", "client"),
      column("Looks like", "text", (value, row) => (hasJustBegun(row) ? "has just begun" : visible(value))),
      column("New PIDs", "new_pids", count, "number"),
      column("Per h", "pids_per_hour", count, "number wide"),
    ], rows, { name: "diagnosis" }),
    ...ill.flatMap((row) => row.fixes.map((fix) => remedy(row, fix))),
  ];
}

function remedy(row, fix) {
  const sure = row.fixes.length === 1;
  const how = [["Java", fix.java], ["Python", fix.python], ["librdkafka", fix.librdkafka]];
  return h("div", { class: "remedy" },
    h("p", {}, h("strong", {}, text(row.client)), sure ? ": " : `, if ${fix.kind}: `, visible(fix.summary)),
    disclosure(`fix/${row.client}/${fix.kind}`, "How, and how this is known",
      h("dl", { class: "how" }, how.map(([library, words]) => [h("dt", {}, library), h("dd", {}, visible(words))])),
      h("p", {}, `Evidence: ${visible(row.evidence)}.`),
      row.decides && h("p", {}, `What decides: ${visible(row.decides)}`)));
}

// What opens its producers at its start looks the same for half a minute.
function hasJustBegun(row) {
  return row.kind === "healthy" && row.new_pids >= 5 && row.span_seconds <= 30;
}

// All decisions, who is on hold, and all that is known of holds.

import { h, section, spans, table } from "./dom.js";
import { compact, count, duration, moment, NONE, visible } from "./format.js";
import { HOLD } from "./holds.js";
import { none, PRINCIPAL, principalLink } from "./views.js";

const SPANS = [[24, "24 h"], [168, "7 d"], [720, "30 d"], [8760, "1 year"]];

function choices(page, path) {
  const link = (hours) => `#/${path}?${new URLSearchParams(page.name ? { hours, name: page.name } : { hours })}`;
  return spans(SPANS, page.hours, link, page.name && h("a", { href: `#/${path}?hours=${page.hours}` }, "all principals"));
}

const title = (noun, page) => [h("h1", {}, page.name ? [`${noun} on `, principalLink(page.name)] : noun)];
const cut = (page) => !page.complete && h("p", { class: "quiet" }, "Only the newest 1,000 are shown: name a principal, or use pid-quota sql.");

export async function decisions(get, { hours = "24", name = "" }) {
  const page = await get("decisions", { hours, name });
  const { now } = page;
  return {
    page,
    title: "Decisions",
    content: [
      ...title("Decisions", page),
      choices(page, "decisions"),
      table([
        { head: "At", nowrap: true, soft: true, by: (row) => row.decided_at, cell: (row) => moment(row.decided_at, now) },
        PRINCIPAL,
        { head: "Action", nowrap: true, by: (row) => row.action, cell: (row) => row.action.toLowerCase() },
        { head: "For", number: true, wide: true, by: (row) => row.throttle_time_ms, cell: (row) => (row.action === "THROTTLE" ? duration(row.throttle_time_ms / 1000) : NONE) },
        { head: "Until", number: true, wide: true, by: (row) => row.throttled_until, cell: (row) => moment(row.throttled_until, now) },
        { head: "Refused", number: true, by: (row) => row.refused_pids, cell: (row) => count(row.refused_pids) },
        { head: "Quota", number: true, wide: true, by: (row) => row.quota, cell: (row) => compact(row.quota) },
        { head: "Reason", wide: true, nowrap: true, by: (row) => row.reason, cell: (row) => (row.reason ?? NONE).replaceAll("_", " ") },
      ], page.decisions, { name: "decisions", empty: none(page, "None in this period.") }),
      cut(page),
    ],
  };
}

const WRITER = { head: "By", wide: true, by: (row) => row.writer, cell: (row) => visible(row.writer ?? NONE) };
const COUNTS = [
  { head: "Held requests", number: true, wide: true, by: (row) => row.held_requests, cell: (row) => count(row.held_requests) },
  { head: "Let in", number: true, wide: true, by: (row) => row.let_in, cell: (row) => count(row.let_in) },
];

export async function holds(get, { hours = "24", name = "" }) {
  const page = await get("holds", { hours, name });
  const { now } = page;
  return {
    page,
    title: "Holds",
    content: [
      ...title("Holds", page),
      h("p", { class: "quiet" }, "While a principal is on hold, its requests for new producer ids wait. Producers that have an id notice nothing."),
      choices(page, "holds"),
      section("On hold now", table([
        PRINCIPAL,
        HOLD(now),
        { head: "Until", number: true, soft: true, by: (row) => row.until, cell: (row) => moment(row.until, now) },
        { head: "Released until", number: true, wide: true, by: (row) => row.released_until, cell: (row) => moment(row.released_until, now) },
        ...COUNTS,
        { head: "One in per", number: true, wide: true, by: (row) => row.init_every_ms, cell: (row) => (row.init_every_ms ? duration(row.init_every_ms / 1000) : NONE) },
        { head: "Reason", wide: true, by: (row) => row.reason, cell: (row) => visible(row.reason ?? NONE) },
        WRITER,
      ], page.holds, { name: "holds", empty: none(page, "Nobody is on hold.") })),
      section("What happened", table([
        { head: "At", nowrap: true, soft: true, by: (row) => row.recorded_at, cell: (row) => moment(row.recorded_at, now) },
        { ...PRINCIPAL, cell: (row) => (row.principal ? PRINCIPAL.cell(row) : row.state === "ignored" ? NONE : "everybody") },
        { head: "What", nowrap: true, by: (row) => row.state, cell: (row) => row.state.replaceAll("_", " ") },
        { head: "Broker", number: true, by: (row) => row.broker_id, cell: (row) => `${row.broker_id ?? NONE}` },
        { head: "Until", number: true, wide: true, by: (row) => row.until, cell: (row) => moment(row.until, now) },
        ...COUNTS,
        { head: "Reason", wide: true, by: (row) => row.reason, cell: (row) => visible(row.reason ?? NONE) },
        WRITER,
      ], page.facts, { name: "facts", empty: none(page, "Nothing in this period.") })),
      cut(page),
    ],
  };
}

// All decisions, who is on hold, and all that is known of holds.

import { copyable, copyButton } from "./copy.js";
import { column, h, section, spans, table } from "./dom.js";
import { at, compact, count, duration, NONE, text, unscored } from "./format.js";
import { HOLD, isWritten } from "./holds.js";
import { none, PRINCIPAL, principalLink } from "./views.js";

const SPANS = [[24, "24 h"], [168, "7 d"], [720, "30 d"], [8760, "1 year"]];

function choices(page, path) {
  const link = (hours) => `#/${path}?${new URLSearchParams(page.name ? { hours, name: page.name } : { hours })}`;
  return spans(SPANS, page.hours, link, page.name && h("a", { href: `#/${path}?hours=${page.hours}` }, "all principals"));
}

const title = (noun, page) => [h("h1", {}, page.name ? [`${noun} on `, principalLink(page.name)] : noun)];
const cut = (page) => !page.complete && h("p", { class: "quiet" }, "Only the newest 1,000 are shown: name a principal, or use pid-quota sql.");

// The decisions of a page; `whose` and `more` are columns of a page of many principals.
export function decisionsTable(page, options, whose = [], more = []) {
  return table([
    column("At", "decided_at", at(page.now), "nowrap soft"),
    ...whose,
    column("Action", "action", (action) => action.toLowerCase(), "nowrap"),
    column("For", "throttle_time_ms", (ms, row) => (row.action === "THROTTLE" ? duration(ms / 1000) : NONE), "number wide"),
    column("Refused", "refused_pids", count, "number"),
    column("Quota", "quota", compact, "number wide"),
    ...more,
  ], page.decisions, { empty: none(page, "None in this period."), ...options });
}

export async function decisions(get, { hours = "24", name = "" }) {
  const page = await get("decisions", { hours, name });
  return {
    page,
    title: "Decisions",
    content: [
      ...title("Decisions", page),
      choices(page, "decisions"),
      decisionsTable(page, { name: "decisions" }, [PRINCIPAL], [column("Until", "throttled_until", at(page.now), "number wide"), column("Reason", "reason", unscored, "wide nowrap")]),
      cut(page),
    ],
  };
}

const WRITER = column("By", "writer", text, "wide");
const COUNTS = [
  column("Held requests", "held_requests", count, "number wide"),
  column("Let in", "let_in", count, "number wide"),
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
        column("Until", "until", at(now), "number soft"),
        column("Released until", "released_until", at(now), "number wide"),
        ...COUNTS,
        column("One in per", "init_every_ms", (value) => (value ? duration(value / 1000) : NONE), "number wide"),
        column("Reason", "reason", text, "wide"),
        WRITER,
        { head: "Copy command", kind: "wide", cell: (row) => isWritten(row) && copyButton("Release", `releases ${text(row.principal)}`, row.release_command) },
      ], page.holds, { name: "holds", empty: none(page, "Nobody is on hold.") }),
      page.holds.some(isWritten) && copyable("releases everybody", page.release_command)),
      section("What happened", table([
        column("At", "recorded_at", at(now), "nowrap soft"),
        { ...PRINCIPAL, cell: (row) => (row.principal ? PRINCIPAL.cell(row) : row.state === "ignored" ? NONE : "everybody") },
        column("What", "state", unscored, "nowrap"),
        column("Broker", "broker_id", text, "number"),
        column("Until", "until", at(now), "number wide"),
        ...COUNTS,
        column("Reason", "reason", text, "wide"),
        WRITER,
      ], page.facts, { name: "facts", empty: none(page, "Nothing in this period.") })),
      cut(page),
    ],
  };
}

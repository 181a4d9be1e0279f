// All decisions, and all leases of the enforcer with each of their steps.

import { h, section, spans, table } from "./dom.js";
import { compact, count, duration, moment, NONE, visible } from "./format.js";
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

const entity = (row) => [row.entity_user, row.entity_client_id, row.entity_ip].filter(Boolean).map(visible).join(" / ") || NONE;
const quota = (row) => (row.lever === "hold" ? row.lever : row.lever ? `${row.lever} = ${row.new_value ?? NONE}` : NONE);

export const LEASE_COLUMNS = (now) => [
  { head: "Entity", wide: true, by: entity, cell: entity },
  { head: "Quota", nowrap: true, soft: true, by: quota, cell: quota },
  { head: "State", nowrap: true, soft: true, by: (row) => row.state, cell: (row) => (row.in_force_now ? h("span", { class: "held" }, "in force") : row.state.replaceAll("_", " ")) },
  { head: "Until", number: true, soft: true, by: (row) => row.until, cell: (row) => moment(row.until, now) },
];

export async function leases(get, { hours = "24", name = "" }) {
  const page = await get("leases", { hours, name });
  const { now } = page;
  return {
    page,
    title: "Leases",
    content: [
      ...title("Leases", page),
      h("p", { class: "quiet" }, "What the enforcer set on the brokers, for whom and until when."),
      choices(page, "leases"),
      section("In force, or ended in this period", table([PRINCIPAL, ...LEASE_COLUMNS(now)], page.leases, { name: "leases", empty: "None." })),
      section("Each step", table([
        { head: "At", nowrap: true, soft: true, by: (row) => row.recorded_at, cell: (row) => moment(row.recorded_at, now) },
        PRINCIPAL,
        { head: "Step", nowrap: true, by: (row) => row.state, cell: (row) => row.state.replaceAll("_", " ") },
        { head: "Entity", wide: true, by: entity, cell: entity },
        { head: "Quota", wide: true, nowrap: true, by: quota, cell: quota },
        { head: "Before", number: true, wide: true, by: (row) => row.previous_value, cell: (row) => row.previous_value ?? NONE },
        { head: "Reason", by: (row) => row.reason, cell: (row) => visible(row.reason ?? NONE) },
        { head: "By", wide: true, by: (row) => row.enforcer, cell: (row) => visible(row.enforcer ?? NONE) },
      ], page.steps, { name: "steps", empty: "None in this period." })),
      cut(page),
    ],
  };
}

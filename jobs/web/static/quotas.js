// Quotas: in force, suggested, what they would have refused, and the commands that change them.

import { copyable, copyButton } from "./copy.js";
import { breakable, column, h, section, table } from "./dom.js";
import { count, moment, NONE, visible } from "./format.js";
import { none, remedies } from "./views.js";

const words = (rate, burst) => (rate === null ? NONE : count(rate) + (burst === null || burst === rate ? "" : `, burst ${count(burst)}`));

export async function quotas(get) {
  const page = await get("quotas");
  return {
    page,
    title: "Quotas",
    content: [
      h("h1", {}, "Quotas"),
      h("p", { class: "quiet" }, `New producer ids per window; a burst is how many may come at once. “Refused” is what each would have refused in the last ${page.days} d at most.`),
      ...remedies(page.missing, ["producer_id_quotas"]),
      ...page.faults.map((fault) => h("p", { class: "remedy" }, visible(fault))),
      section("The default", standard(page)),
      section("Users", table(columns(page), page.quotas, { name: "quotas", empty: none(page, "No user has made a producer id in this time, and none has a quota.") }),
        !page.complete && h("p", { class: "quiet" }, "There are more: pid-quota quotas --describe has all.")),
      section("Change a quota",
        h("p", { class: "quiet" }, "The console changes nothing. Its buttons copy commands for a shell on a host with the tables; edit the number there. They apply from the stream's next batch."),
        copyable("sets a quota of another user", page.another_command)),
    ],
  };
}

function standard({ default: entry, default_over: over, default_commands: commands, now }) {
  return h("p", { class: "row" },
    entry === null ? "There is none: who has no quota of its own is never refused."
      : h("span", {}, h("strong", {}, words(entry.producer_ids_rate, entry.producer_ids_burst)), ` for all without a quota of their own; ${count(over)} refused. `,
        h("span", { class: "quiet" }, `Set ${moment(entry.updated_at, now)} by ${visible(entry.updated_by ?? "nobody known")}.`)),
    buttons("the default quota", commands));
}

const buttons = (what, { set_command: set, delete_command: remove }) => [
  copyButton("Set", `sets ${what}`, set), " ", remove && copyButton("Delete", `deletes ${what}`, remove)];

const own = (_, row) => (row.own_rate !== null ? words(row.own_rate, row.own_burst)
  : h("span", { class: "quiet" }, row.rate === null ? "none" : `${words(row.rate, row.burst)} (default)`));

const columns = (page) => [
  column("User", "entity_name", (name) => h("a", { href: `#/principal?name=${encodeURIComponent(`User:${name}`)}` }, breakable(visible(name)))),
  column("Quota", "rate", own, "number soft"),
  column("Refused", "pids_over", count, "number"),
  column("Busiest window", "most_pids", count, "number wide"),
  column("Suggested", "suggested", (rate, row) => words(rate, row.suggested_burst), "number"),
  column("Refused then", "suggested_over", count, "number wide"),
  column("Mend first", "looks_like", (looks, row) => (looks ? `${visible(looks)}; then ${count(row.once_mended)} will suffice` : ""), "wide"),
  column("Set", "updated_at", (at, row) => (at ? `${moment(at, page.now)} by ${visible(row.updated_by ?? NONE)}` : ""), "wide"),
  { head: "Copy command", kind: "wide", cell: (row) => buttons(`the quota of ${visible(row.entity_name)}`, row) },
];

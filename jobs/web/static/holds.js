// What brokers do about a principal: whether its requests for new producer ids wait.

import { column, h } from "./dom.js";
import { count, moment, NONE, plural, visible } from "./format.js";

// In a few words; `row` is of the view hold_status, or of one with its columns.
export function holdWords(row, now) {
  if (row.hold === "held") return `held since ${moment(row.held_since ?? row.since, now)}, ${brokersOf(row)}`;
  if (row.hold === "written") return "written, no broker confirms it";
  if (row.hold === "left out") return `not held: ${visible(row.hold_reason ?? NONE)}`;
  return row.hold ?? NONE;
}

const brokersOf = (row) => `${count(row.confirmed_brokers)} of ${plural(row.live_brokers, "broker")}`;

export const marked = (row, words) => (row.hold === "held" ? h("span", { class: "held" }, words) : words);

export const HOLD = (now) => column("Hold", "hold", (_, row) => marked(row, holdWords(row, now)), "soft");

export const isWritten = (row) => row.hold === "held" || row.hold === "written";

// What brokers hold of producers, what the survivors could lead if one died, and what another expiration would free.

import { chart } from "./charts.js";
import { column, h, section, table } from "./dom.js";
import { ago, bytes, compact, count, duration, percent, text } from "./format.js";
import { PRINCIPAL } from "./views.js";

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
      h("p", { class: "quiet" }, "An entry is one producer id on one replica of one partition: this takes heap, a quota counts producer ids."),
      section("Brokers", table([
        column("Broker", "broker_id"),
        column("Held", "held_pids", compact, "number"),
        column("Led", "led_pids", compact, "number"),
        column("About", "estimated_bytes", bytes, "number"),
        column("In transaction", "open_transactions", count, "number wide"),
        column("Expires after", "expiration_ms", (value) => duration(value / 1000), "number wide"),
        column("Asked", "age_seconds", ago, "number"),
      ], page.brokers, { name: "brokers" })),
      page.sweeps.at_ms.length > 1 &&
        section("Held entries, last 7 d", chart({ title: "Held entries", times: page.sweeps.at_ms, series })),
      section("If producers expired sooner or later", whatIf(page)),
      page.failovers.length > 0 && section("If a broker dies", failovers(page.failovers)),
      section("By principal, all brokers", table([
        PRINCIPAL,
        column("Entries", "entries", compact, "number"),
        column("About", "estimated_bytes", bytes, "number"),
      ], page.principals, { name: "holders" })),
      section("By broker, topic and principal", table([
        PRINCIPAL,
        column("Topic", "topic"),
        column("Broker", "broker_id", text, "number"),
        column("Held", "held_pids", compact, "number"),
        column("Led", "led_pids", compact, "number wide"),
        column("About", "estimated_bytes", bytes, "number wide"),
        column("Of broker", "share_of_broker", percent, "number wide"),
      ], page.rows, { name: "occupancy" }), page.more_rows > 0 && h("p", { class: "quiet" }, `${count(page.more_rows)} smaller rows are not shown.`)),
    ],
  };
}

function howToFill(problem) {
  return h("div", { class: "remedy" },
    h("p", {}, problem ?? "producer_occupancy has no rows of the last 7 days."),
    h("p", {}, "To fill it, run this command regularly on a host that reaches the brokers:"),
    h("p", {}, h("code", {}, "pid-quota occupancy --bootstrap-server HOST:9092 --tables TABLES")));
}

function failovers(deaths) {
  const rows = deaths.flatMap((death) => death.survivors.map((survivor) => ({ ...death, ...survivor })));
  return [
    h("p", { class: "quiet" }, "The most entries that each survivor could lead. Memory use does not change: followers hold these entries " +
      "already. pid-quota occupancy asks for the exact heirs."),
    table([
      column("Dies", "dead", (value) => `broker ${value}`),
      column("It leads", "led_pids", compact, "number wide"),
      column("Survivor", "broker_id", (value) => `broker ${value}`),
      column("Leads now", "led_before", compact, "number"),
      column("Then, at most", "led_at_most", compact, "number"),
    ], rows, { name: "failovers" }),
  ];
}

// Hours that the slider stops at: producer.id.expiration.ms is a matter of hours or days.
const HOURS = [1, 2, 3, 4, 6, 8, 12, 18, 24, 36, 48, 72, 96, 120, 168];
let wished = null;

function whatIf(page) {
  const today = Math.max(...page.brokers.map((row) => row.expiration_ms)) / 3_600_000;
  const place = HOURS.findIndex((hours) => hours >= (wished ?? today));
  const input = h("input", {
    type: "range", id: "expiration", min: 0, max: HOURS.length - 1, step: 1, value: place < 0 ? HOURS.length - 1 : place,
  });
  const told = h("output", { for: "expiration" });
  const rows = h("div");
  const fill = () => {
    const hours = HOURS[input.value];
    const words = duration(hours * 3600);
    input.setAttribute("aria-valuetext", words);
    told.textContent = words;
    rows.replaceChildren(outlook(page.brokers, hours), h("p", { class: "quiet" },
      hours < today ? "Sooner: the next check removes producers that are silent for longer; they lose deduplication if they resume. "
        : hours > today ? "Later: entries stay longer; their number grows by those that expire in that time at today's rate. " : "",
      "By the newest sweep; ", h("code", {}, `pid-quota occupancy --expiration-ms ${hours * 3_600_000}`),
      " asks the brokers, and shows who would lose deduplication."));
  };
  input.addEventListener("input", () => {
    wished = HOURS[input.value];
    fill();
  });
  fill();
  return [h("p", { class: "slider" }, h("label", { for: "expiration" }, "producer.id.expiration.ms"), input, told), rows];
}

function outlook(brokers, hours) {
  const rows = brokers.map((row) => ({ ...row, ...heldWith(row, hours) }));
  return table([
    column("Broker", "broker_id"),
    column("Held now", "held_pids", compact, "number"),
    column("Then, about", "then", compact, "number"),
    column("Heap then", "then", (value, row) => bytes(value * row.estimated_bytes / Math.max(1, row.held_pids)), "number wide"),
    { head: "Change", kind: "number", by: (row) => row.then - row.held_pids, cell: (row) => (row.then < row.held_pids ? `−${compact(row.held_pids - row.then)}` : `+${compact(row.then - row.held_pids)}`) },
  ], rows, { name: "what if" });
}

// Entries by whole hours of silence: those below the new limit stay. A longer limit keeps what expires today: as many
// per hour as are silent in the last whole hour before today's limit.
export function heldWith({ idle_hours: idle, held_pids: held, open_transactions: open, expiration_ms: expiration }, hours) {
  const today = Math.max(1, Math.floor(expiration / 3_600_000));
  const younger = idle.slice(0, hours).reduce((sum, each) => sum + each, 0);
  if (hours <= today) return { then: Math.min(held, Math.max(younger, open)) };
  const older = idle.slice(Math.floor(today / 2), today);
  const perHour = older.reduce((sum, each) => sum + each, 0) / Math.max(1, today - Math.floor(today / 2));
  return { then: Math.round(held + perHour * (hours - today)) };
}

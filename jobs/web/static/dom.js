// Makes elements. Text only ever becomes a text node, so no name can be markup.

import { text } from "./format.js";

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const UNBROKEN = 16;
const RUNS = new RegExp(`.{1,${UNBROKEN}}`, "gsu");

// Where a long name may break: after punctuation, and in a run of letters only if that would not fit a phone.
export function breakable(text) {
  return text.split(/(?<=\s)/).flatMap((word) => (word.length <= UNBROKEN ? [word]
    : word.split(/(?<=[-_.,:;/=@+()<>])/).flatMap((part) => part.match(RUNS)).flatMap((part, index) => (index ? [h("wbr"), part] : [part]))));
}

// A bar of use with a mark at the quota, which is its middle: its end is ten times the quota.
export function meter(share, held) {
  const bar = h("span", { class: held ? "meter held" : share > 1 ? "meter over" : "meter", "aria-hidden": "true" });
  // The page's policy forbids style attributes, and allows this.
  bar.style.setProperty("--used", `${share <= 1 ? 50 * share : Math.min(100, 50 + 50 * Math.log10(share))}%`);
  return bar;
}

// How each table is sorted, by its name: it outlives a refresh.
const orders = new Map();

function ordered(rows, columns, order) {
  const by = columns.find(({ head }) => head === order?.head)?.by;
  if (!by) return rows;
  const sign = order.down ? -1 : 1;
  return rows.toSorted((one, other) => {
    const [a, b] = [by(one), by(other)];
    const [noA, noB] = [a === null || a === undefined, b === null || b === undefined];
    // What is not known comes last in either direction.
    if (noA || noB) return Number(noA) - Number(noB);
    return sign * (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
  });
}

// A column of a table: `tell(value, row)` makes what a cell shows of the row's field, by which the table can be sorted.
// Of its kinds, `wide` gives way on a phone, `spare` on a small screen, and `soft` wraps on a phone.
export function column(head, field, tell = text, kind = null) {
  return { head, kind, by: (row) => row[field], cell: (row) => tell(row[field], row) };
}

// A table. `name` is what its order is kept by; `limit` rows are shown.
export function table(columns, rows, { empty = "Nothing.", name = "", limit = Infinity } = {}) {
  if (rows.length === 0) return h("p", { class: "empty" }, empty);
  const body = h("tbody");
  const heads = columns.map(({ head, kind, by }) => {
    const press = () => {
      const order = orders.get(name);
      // Numbers are asked for from the top.
      orders.set(name, { head, down: order?.head === head ? !order.down : Boolean(kind?.includes("number")) });
      fill();
    };
    const label = name && by && rows.length > 1
      ? h("button", { type: "button", class: "sort", "data-key": `${name}/${head}`, onclick: press }, head)
      : head;
    return h("th", { scope: "col", class: kind }, label);
  });
  const fill = () => {
    const order = orders.get(name);
    heads.forEach((head, index) => {
      if (columns[index].head === order?.head) head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    body.replaceChildren(...ordered(rows, columns, order).slice(0, limit).map((row) =>
      h("tr", { class: row.throttled_now ? "throttled" : null },
        columns.map(({ kind, cell }) => h("td", { class: kind }, [cell(row)].flat().map((each) => (typeof each === "string" ? breakable(each) : each)))))));
  };
  fill();
  return h("table", {}, h("thead", {}, h("tr", {}, heads)), body);
}

// Which disclosures are open, by key: they outlive a refresh.
const opened = new Set();

export function disclosure(key, summary, ...children) {
  // A click, also by a key, comes before the change.
  const press = () => (element.open ? opened.delete(key) : opened.add(key));
  const element = h("details", { open: opened.has(key) }, h("summary", { "data-key": key, onclick: press }, summary), ...children);
  return element;
}

// In place of what is not there yet; `tables` are what it is read from.
export function reading(tables) {
  return h("p", { class: "empty reading" }, `Reading ${tables}…`);
}

export function section(title, ...children) {
  return h("section", {}, h("h2", {}, title), ...children);
}

// Links that choose a time span; `link(hours)` makes their address.
export function spans(choices, chosen, link, ...more) {
  return h("nav", { class: "spans", "aria-label": "Time span" },
    choices.map(([hours, label]) => h("a", { href: link(hours), "aria-current": hours === chosen && "true" }, label)), ...more);
}

// Figures with their names; a figure is [name, value, note, alarm].
export function figures(list) {
  return h("dl", { class: "figures" }, list.map(([name, value, note, alarm]) =>
    h("div", { class: alarm ? "alarm" : null }, h("dt", {}, name), h("dd", {}, value, note && h("small", {}, note)))));
}

export function facts(list) {
  return h("dl", { class: "facts" }, list.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

// Makes elements. Text only ever becomes a text node, so no name can be markup.

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

// A bar of use: an SVG, since the page's policy forbids style attributes.
export function meter(share, over) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", over ? "meter over" : "meter");
  svg.setAttribute("viewBox", "0 0 100 6");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  for (const [kind, width] of [["track", 100], ["fill", Math.max(share > 0 ? 1 : 0, Math.min(1, share ?? 0) * 100)]]) {
    const rect = document.createElementNS(SVG, "rect");
    rect.setAttribute("class", kind);
    rect.setAttribute("width", width);
    rect.setAttribute("height", 6);
    svg.append(rect);
  }
  return svg;
}

// A table. A column is { head, cell(row), number, wide }: `wide` ones give way on a phone.
export function table(columns, rows, { caption, empty = "Nothing." } = {}) {
  if (rows.length === 0) return h("p", { class: "empty" }, empty);
  const kind = (column) => [column.number && "number", column.wide && "wide"].filter(Boolean).join(" ") || null;
  const head = columns.map((column) => h("th", { scope: "col", class: kind(column) }, column.head));
  const body = rows.map((row) =>
    h("tr", { class: row.throttled_now ? "throttled" : null },
      columns.map((column) => h("td", { class: kind(column) }, column.cell(row)))));
  return h("table", {}, caption && h("caption", {}, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, body));
}

export function section(title, ...children) {
  return h("section", {}, h("h2", {}, title), ...children);
}

// Figures with their names; a figure is [name, value, note, alarm].
export function figures(list) {
  return h("dl", { class: "figures" }, list.map(([name, value, note, alarm]) =>
    h("div", { class: alarm ? "alarm" : null }, h("dt", {}, name), h("dd", {}, value, note && h("small", {}, note)))));
}

export function facts(list) {
  return h("dl", { class: "facts" }, list.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

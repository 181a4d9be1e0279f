// Which page is shown (the address after #), its refresh, the search box and the keys.

import { adoptCharts } from "./charts.js";
import { h } from "./dom.js";
import { clock } from "./format.js";
import { principal } from "./principal.js";
import { headroom, occupancy, overview, throttled } from "./views.js";

const PAGES = { overview, throttled, headroom, occupancy, principal };
const REFRESH_MS = 10_000;
const main = document.querySelector("#main");
const trouble = document.querySelector("#trouble");
const search = document.querySelector("#search");
const box = search.elements.q;

let refreshMs = REFRESH_MS;
let turn = 0;
let timer = null;
let matches = [];
let moves = 0;

function where() {
  const [path, query = ""] = location.hash.slice(1).split("?", 2);
  const name = path.replace(/^\//, "") || "overview";
  return { name: name in PAGES ? name : "overview", query: Object.fromEntries(new URLSearchParams(query)) };
}

async function get(name, query = {}) {
  const asked = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== ""));
  const answer = await fetch(asked.size > 0 ? `/api/${name}?${asked}` : `/api/${name}`, { headers: { Accept: "application/json" } });
  if (answer.status === 401) location.reload();
  // A Databricks App knows who looks.
  const user = answer.headers.get("X-Console-User");
  document.querySelector("#user").textContent = user ? `signed in as ${decodeURIComponent(user)}` : "";
  const body = await answer.json();
  if (!answer.ok) throw new Error(`${body.error}. ${body.remedy}`);
  return body;
}

// Show the page of the address. Answers that come when another page is wanted are dropped.
async function show({ refreshed = false } = {}) {
  const mine = ++turn;
  clearTimeout(timer);
  const { name, query } = where();
  for (const link of document.querySelectorAll("header nav a")) {
    if (link.dataset.page === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (!refreshed) main.setAttribute("aria-busy", "true");
  try {
    const { page, title, content, matches: found = [] } = await PAGES[name](get, query);
    if (mine !== turn) return;
    render(content, refreshed);
    refreshMs = page.refresh_ms ?? REFRESH_MS;
    matches = found;
    document.title = `${title} · pid-quota`;
    document.querySelector("#source").textContent = page.tables;
    document.querySelector("#asof").textContent = `as of ${clock(page.now)} UTC`;
    trouble.hidden = true;
    // For the tests and the bench: how long the first page took.
    if (performance.getEntriesByName("shown").length === 0) performance.mark("shown");
  } catch (error) {
    if (mine !== turn) return;
    trouble.textContent = error instanceof TypeError ? "The console does not answer. Is `pid-quota console` running?" : error.message;
    trouble.hidden = false;
    if (!refreshed) render([], false);
  }
  main.removeAttribute("aria-busy");
  main.dataset.shows = location.hash;
  timer = setTimeout(() => show({ refreshed: true }), refreshMs);
}

function render(content, refreshed) {
  // A refresh must not move what is being read: the focus and the scroll stay.
  const focused = refreshed && main.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  main.replaceChildren(...content.flat().filter(Boolean));
  adoptCharts();
  if (focused) [...main.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
  if (!refreshed) {
    window.scrollTo(0, 0);
    if (document.activeElement === document.body) main.focus({ preventScroll: true });
  }
}

window.addEventListener("hashchange", () => {
  moves += 1;
  show();
});
document.addEventListener("visibilitychange", () => {
  // Nobody looks: nobody asks.
  if (document.hidden) clearTimeout(timer);
  else show({ refreshed: true });
});

box.addEventListener("input", () => {
  const target = `#/headroom?q=${encodeURIComponent(box.value)}`;
  if (where().name === "headroom") {
    history.replaceState(null, "", target);
    show({ refreshed: true });
  } else location.hash = target;
});
search.addEventListener("submit", (event) => {
  event.preventDefault();
  if (matches.length > 0) location.hash = `#/principal?name=${encodeURIComponent(matches[0])}`;
  box.blur();
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/" && document.activeElement !== box) {
    event.preventDefault();
    box.focus();
    box.select();
  } else if (event.key === "Escape") {
    event.preventDefault();
    if (document.activeElement === box) {
      box.value = "";
      box.blur();
    }
    goBack();
  }
});

// Back within the console, never out of it.
function goBack() {
  if (where().name === "overview") return;
  if (moves > 0) {
    moves -= 2;
    history.back();
  } else location.hash = "#/";
}

main.append(h("p", { class: "empty" }, "Reading the tables…"));
show();

// Which page is shown (the address after #), its refresh, the search box and the keys.

import { adoptCharts } from "./charts.js";
import { breakable, h, reading } from "./dom.js";
import { clock, visible } from "./format.js";
import { decisions, holds } from "./history.js";
import { occupancy } from "./occupancy.js";
import { principal } from "./principal.js";
import { quotas } from "./quotas.js";
import { headroom, nowhere, overview, throttled } from "./views.js";

const PAGES = { overview, throttled, headroom, decisions, holds, quotas, occupancy, principal };
// What the pages of one answer are read from.
const READS = {
  throttled: "throttle_decisions", headroom: "producer_id_metrics", decisions: "throttle_decisions", holds: "holds",
  quotas: "producer_id_quotas and producer_id_metrics", occupancy: "producer_occupancy", principal: "producer_id_metrics",
};
const REFRESH_MS = 10_000;
// A page that is there sooner needs no notice.
const NOTICE_MS = 150;
const main = document.querySelector("#main");
const trouble = document.querySelector("#trouble");
const stale = document.querySelector("#stale");
const cluster = document.querySelector("#cluster");
const pause = document.querySelector("#pause");
const search = document.querySelector("#search");
const box = search.elements.q;

let refreshMs = REFRESH_MS;
let shownOnce = false;
let turn = 0;
let timer = null;
let paused = false;
let matches = [];
let moves = 0;

function where() {
  const [path, query = ""] = location.hash.slice(1).split("?", 2);
  const name = path.replace(/^\//, "") || "overview";
  return { name, query: Object.fromEntries(new URLSearchParams(query)) };
}

async function get(name, query = {}) {
  const asked = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== ""));
  // The page's own address may contain a name and the token, with which browsers refuse to fetch.
  const answer = await fetch(`${location.origin}/api/${name}?${asked}`, { headers: { Accept: "application/json" } });
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
  // A page that comes is shown part by part. One that stays, refreshed or of another time span, is replaced at once.
  const subject = `${name} ${query.name ?? ""}`;
  const stays = refreshed || main.dataset.subject === subject;
  let begun = stays;
  const early = (content) => {
    if (mine !== turn || stays) return;
    render(content, begun);
    begun = true;
  };
  const heading = h("h1", {}, name === "principal" ? breakable(visible(query.name ?? "")) : name[0].toUpperCase() + name.slice(1));
  const notice = setTimeout(() => {
    if (!begun && Object.hasOwn(READS, name)) early([heading, reading(READS[name])]);
  }, shownOnce ? NOTICE_MS : 0);
  try {
    const make = Object.hasOwn(PAGES, name) ? PAGES[name] : () => nowhere(name);
    // Each page knows whether the stream still lives, since silence looks like calm.
    const freshness = get("freshness");
    freshness.catch(() => {});
    const fetched = async (...asked) => {
      const [page, fresh] = await Promise.all([get(...asked), freshness]);
      return { ...page, fresh };
    };
    const [{ page, title, content, news = "", matches: found = [] }, fresh] =
      await Promise.all([make(fetched, query, early), freshness]);
    clearTimeout(notice);
    if (mine !== turn) return;
    warn(fresh);
    if (!refreshed || !isBeingRead()) render(content, begun);
    refreshMs = page.refresh_ms ?? REFRESH_MS;
    matches = found;
    document.title = [title, nameCluster(page.cluster ?? ""), "pid-quota"].filter(Boolean).join(" · ");
    document.querySelector("#source").textContent = page.tables ?? "";
    document.querySelector("#asof").textContent = page.now ? `as of ${clock(page.now)} UTC` : "";
    // Screen readers are told what changes, not what time it is.
    const said = document.querySelector("#news");
    if (said.textContent !== news) said.textContent = news;
    trouble.hidden = true;
    // For the tests and the bench: how long the first page took.
    if (!shownOnce) performance.mark("shown");
    shownOnce = true;
    main.dataset.subject = subject;
  } catch (error) {
    clearTimeout(notice);
    if (mine !== turn) return;
    trouble.textContent = error instanceof TypeError ? "The console does not answer. Is `pid-quota console` running?" : error.message;
    trouble.hidden = false;
    if (!refreshed) {
      main.dataset.subject = "";
      render([heading], false);
    }
  }
  main.removeAttribute("aria-busy");
  main.dataset.shows = location.hash;
  if (!paused && !document.hidden) timer = setTimeout(() => show({ refreshed: true }), refreshMs);
}

// By the first of its bootstrap servers, unless it has a name.
function nameCluster(name) {
  const [first, ...more] = name.split(",");
  const text = visible(first) + (more.length > 0 ? ` +${more.length}` : "");
  cluster.hidden = text === "";
  cluster.replaceChildren("Cluster ", h("strong", {}, text));
  cluster.title = visible(name);
  return text;
}

function warn(fresh) {
  document.body.classList.toggle("stale", fresh.stale);
  stale.hidden = !fresh.stale;
  const text = fresh.stale ? [h("strong", {}, sentence(fresh.warning)), " Look with ", ...fresh.look.flatMap((command, index) => [index ? ", then " : "", h("code", {}, command)]), "."] : [];
  if (stale.textContent !== text.map((each) => each.textContent ?? each).join("")) stale.replaceChildren(...text);
}

const sentence = (text) => text[0].toUpperCase() + text.slice(1);

// Text that somebody has marked would be lost.
function isBeingRead() {
  const selection = getSelection();
  return !selection.isCollapsed && main.contains(selection.anchorNode);
}

const keyOf = (element) => element.dataset.key ?? element.id ?? "";
const sameAs = (one) => (other) => other.tagName === one.tagName
  && (keyOf(one) ? keyOf(other) === keyOf(one) : other.getAttribute("href") === one.getAttribute("href"));

function render(content, refreshed) {
  // A refresh must not move what is being read: focus and scroll stay.
  const before = refreshed && main.contains(document.activeElement) ? document.activeElement : null;
  main.replaceChildren(...content.flat().filter(Boolean));
  adoptCharts();
  if (before) ([...main.querySelectorAll("a, button, input, summary")].find(sameAs(before)) ?? main).focus({ preventScroll: true });
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
  else if (!paused) show({ refreshed: true });
});
pause.addEventListener("click", () => {
  paused = !paused;
  pause.textContent = paused ? "Resume updates" : "Pause updates";
  clearTimeout(timer);
  if (!paused) show({ refreshed: true });
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

show();

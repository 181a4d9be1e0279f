// Quotas: in force, suggested, and what they would have refused. Those who sign in draft changes and apply them.

import { breakable, h, section, table } from "./dom.js";
import { count, moment, NONE, plural, visible } from "./format.js";
import { none, remedies } from "./views.js";

// The draft: { then, was, effect } by key of an entity; a quota of null deletes it. It outlives a refresh.
const draft = new Map();
const wrong = new Map();
let said = "";
let session = { can_edit: false, user: null };

// A key that no user's name can be taken for.
const keyOf = (name) => JSON.stringify(name);
const nameOf = (key) => JSON.parse(key);
const words = (name) => (name === null ? "the default" : visible(name));
// A quota is a rate, and a burst if it has one of its own; null is none.
const quotaOf = (rate, burst) => (rate === null || rate === undefined ? null : { rate, burst: burst ?? null });
const same = (one, other) => one?.rate === other?.rate && (one?.burst ?? null) === (other?.burst ?? null);
const short = (quota) => (quota === null ? NONE : count(quota.rate) + (quota.burst === null ? "" : `, burst ${count(quota.burst)}`));
const quotaWords = (quota) => (quota === null ? "no quota of its own" : `${count(quota.rate)} per window${quota.burst === null ? "" : `, ${count(quota.burst)} at once`}`);
const typed = (quota) => (quota === null ? "" : quota.rate + (quota.burst === null ? "" : `, burst ${quota.burst}`));

// What somebody types, such as “10” or “10, burst 600”, as a quota; null if it is none.
function parsed(text) {
  const found = /^(\d+(?:\.\d+)?)(?:\s*,?\s*burst\s*(\d+(?:\.\d+)?))?$/.exec(text);
  if (!found || !(Number(found[1]) > 0) || (found[2] !== undefined && !(Number(found[2]) > 0))) return null;
  return quotaOf(Number(found[1]), found[2] === undefined ? null : Number(found[2]));
}

async function ask(path, body = undefined) {
  const options = body === undefined ? {} : { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  const answer = await fetch(path, options);
  const found = await answer.json();
  if (!answer.ok) throw new Error(`${found.error}. ${found.remedy}`);
  return found;
}

export async function quotas(get, _query, { again }) {
  const [page, now] = await Promise.all([get("quotas"), ask("/api/session")]);
  session = now;
  compare(page);
  return {
    page,
    title: "Quotas",
    news: said,
    content: [
      h("h1", {}, "Quotas"),
      h("p", { class: "quiet" }, `New producer ids per window; a burst is how many may come at once. “Refused” is what each would have refused in the last ${page.days} d at most; `,
        h("code", {}, "pid-quota suggest-quotas --bootstrap-servers"), " replays the topic and is exact."),
      ...remedies(page.missing, ["producer_id_quotas"]),
      ...page.faults.map((fault) => h("p", { class: "remedy" }, visible(fault))),
      standard(page, again),
      list(page, again),
      !page.complete && h("p", { class: "quiet" }, "There are more: pid-quota quotas --describe has all."),
      session.user && another(page, again),
      session.user && drafted(again),
      said && h("p", {}, said),
      account(again),
    ],
  };
}

// A quota that somebody else changes under a draft: say so, and go on from the new one.
function compare({ default: entry, quotas: rows }) {
  const rates = new Map(rows.map((row) => [keyOf(row.entity_name), quotaOf(row.own_rate, row.own_burst)]));
  rates.set(keyOf(null), quotaOf(entry?.producer_ids_rate, entry?.producer_ids_burst));
  for (const [key, change] of draft) {
    const now = rates.get(key) ?? null;
    if (!same(now, change.was)) draft.set(key, { ...change, was: now, moved: true });
  }
}

function standard({ default: entry, default_excess: excess, now }, again) {
  const quota = quotaOf(entry?.producer_ids_rate, entry?.producer_ids_burst);
  return section("The default",
    h("p", {}, quota === null ? "There is none: who has no quota of its own is never refused. "
      : [h("strong", {}, short(quota)), ` for all without a quota of their own; ${count(excess.pids_over)} refused. `,
        h("span", { class: "quiet" }, `Set ${moment(entry.updated_at, now)} by ${visible(entry.updated_by ?? "nobody known")}.`)]),
    session.user && editor(null, quota, again));
}

function list(page, again) {
  const own = (row) => (row.own_rate === null ? h("span", { class: "quiet" }, row.rate === null ? "none" : `${short(quotaOf(row.rate, row.burst))} (default)`) : short(quotaOf(row.own_rate, row.own_burst)));
  const columns = [
    { head: "User", by: (row) => row.entity_name, cell: (row) => h("a", { href: `#/principal?name=${encodeURIComponent(`User:${row.entity_name}`)}` }, breakable(visible(row.entity_name))) },
    { head: "Quota", number: true, soft: true, by: (row) => row.rate, cell: own },
    { head: "Refused", number: true, wide: session.user !== null, by: (row) => row.pids_over, cell: (row) => count(row.pids_over) },
    { head: "Busiest window", number: true, wide: true, by: (row) => row.most_pids, cell: (row) => count(row.most_pids) },
    { head: "Suggested", number: true, by: (row) => row.suggested, cell: (row) => suggestion(row, again) },
    { head: "Refused then", number: true, wide: true, by: (row) => row.suggested_over, cell: (row) => count(row.suggested_over) },
    { head: "Mend first", wide: true, by: (row) => row.looks_like, cell: (row) => (row.looks_like ? `${visible(row.looks_like)}; then ${count(row.once_mended)} will suffice` : "") },
    { head: "Set", wide: true, by: (row) => row.updated_at, cell: (row) => (row.updated_at ? `${moment(row.updated_at, page.now)} by ${visible(row.updated_by ?? NONE)}` : "") },
  ];
  if (session.user) columns.push({ head: "New quota", cell: (row) => editor(row.entity_name, quotaOf(row.own_rate, row.own_burst), again) });
  return section("Users", table(columns, page.quotas, { name: "quotas", empty: none(page, "No user has made a producer id in this time, and none has a quota.") }));
}

function suggestion(row, again) {
  const then = quotaOf(row.suggested, row.suggested_burst === row.suggested ? null : row.suggested_burst);
  const was = quotaOf(row.own_rate, row.own_burst);
  if (then === null || !session.user || same(then, was)) return short(then);
  return h("button", { type: "button", "data-key": `suggested ${keyOf(row.entity_name)}`, "aria-label": `Draft ${short(then)} for ${visible(row.entity_name)}`,
    onclick: () => propose(row.entity_name, then, was, again) }, short(then));
}

// A text box for a new quota, and a button that deletes it. The box is empty until somebody types.
function editor(name, was, again) {
  const key = keyOf(name);
  const entry = draft.get(key);
  const fault = wrong.get(key);
  const input = h("input", {
    type: "text", class: "rate", "data-key": `rate ${key}`, "aria-label": `New quota of ${words(name)}`,
    "aria-invalid": fault !== undefined && "true", placeholder: was === null ? "none" : short(was), title: "Such as 10, or 10, burst 600", autocomplete: "off",
  });
  input.value = fault ?? (entry ? typed(entry.then) : "");
  input.addEventListener("change", () => {
    const text = input.value.trim();
    wrong.delete(key);
    if (text === "") drop(key, again);
    else if (parsed(text)) propose(name, parsed(text), was, again);
    else {
      wrong.set(key, input.value);
      said = `“${text}” is no quota: give a number above 0, such as 10, or 10, burst 600.`;
      again();
    }
  });
  return h("span", { class: "edit" }, input, was !== null && h("button", {
    type: "button", "data-key": `delete ${key}`, "aria-label": `Delete the quota of ${words(name)}`, onclick: () => propose(name, null, was, again),
  }, "Delete"));
}

async function propose(name, then, was, again) {
  const key = keyOf(name);
  said = "";
  draft.set(key, { then, was, effect: null });
  again();
  const query = new URLSearchParams({ ...(name === null ? {} : { entity: name }), ...(then === null ? {} : { rate: then.rate }), ...(then?.burst == null ? {} : { burst: then.burst }) });
  try {
    const effect = await ask(`/api/what-if?${query}`);
    const change = draft.get(key);
    if (change?.then === then) draft.set(key, { ...change, effect });
  } catch (error) {
    said = error.message;
    draft.delete(key);
  }
  again();
}

function drop(key, again) {
  draft.delete(key);
  said = "";
  again();
}

function another(page, again) {
  const name = h("input", { id: "another", type: "text", autocomplete: "off", autocapitalize: "none", spellcheck: "false" });
  const rate = h("input", { id: "another-rate", type: "text", class: "rate", autocomplete: "off", title: "Such as 10, or 10, burst 600" });
  return section("Another user", h("form", {
    class: "row",
    onsubmit: (event) => {
      event.preventDefault();
      const wanted = name.value.trim().replace(/^User:/, "");
      const row = page.quotas.find((each) => each.entity_name === wanted);
      const was = quotaOf(row?.own_rate, row?.own_burst);
      const wish = parsed(rate.value.trim());
      if (!wanted || wish === null) return;
      name.value = rate.value = "";
      propose(wanted, wish, was, again);
    },
  }, h("label", { for: "another" }, "User"), name, h("label", { for: "another-rate" }, "Quota"), rate, h("button", { type: "submit", "data-key": "another add" }, "Add to draft")));
}

function drafted(again) {
  if (draft.size === 0) return null;
  const effect = ({ effect: found }) => (found === null ? "reckoning…"
    : `${count(found.then.pids_over)} refused in ${plural(found.then.windows_over, "window")} of ${count(found.then.windows)}, instead of ${count(found.now.pids_over)} in ${count(found.now.windows_over)}`);
  const rows = [...draft].map(([key, entry]) => ({ key, ...entry }));
  return section("Draft", table([
    { head: "Who", cell: (row) => words(nameOf(row.key)) },
    { head: "Now", wide: true, cell: (row) => [quotaWords(row.was), row.moved && ", changed meanwhile"] },
    { head: "Then", cell: (row) => h("strong", {}, quotaWords(row.then)) },
    { head: "In the last 7 d, at most", cell: effect },
    { head: "Drop", cell: (row) => h("button", { type: "button", "data-key": `drop ${row.key}`, "aria-label": `Drop the change of ${words(nameOf(row.key))}`, onclick: () => drop(row.key, again) }, "Drop") },
  ], rows), h("p", {}, h("button", { type: "button", class: "main", "data-key": "apply", onclick: () => apply(again) }, `Apply ${plural(draft.size, "change")}`),
    " ", h("span", { class: "quiet" }, "They apply from the stream's next batch.")));
}

async function apply(again) {
  const changes = [...draft].map(([key, { then, was }]) => ({
    entity_name: nameOf(key), producer_ids_rate: then?.rate ?? null, producer_ids_burst: then?.burst ?? null,
    was: was?.rate ?? null, was_burst: was?.burst ?? null,
  }));
  try {
    const { applied, user } = await ask("/api/quotas/apply", { changes });
    said = `${plural(applied, "change")} applied by ${user}.`;
    draft.clear();
  } catch (error) {
    said = error.message;
  }
  again();
}

function account(again) {
  if (!session.can_edit) {
    return h("p", { class: "quiet" }, "This console only reads. Set quotas with ", h("code", {}, "pid-quota quotas --alter"),
      ", or start it with ", h("code", {}, "--editors"), ".");
  }
  if (session.user) {
    return h("p", { class: "quiet" }, `Signed in as ${visible(session.user)}. `,
      h("button", { type: "button", "data-key": "sign out", onclick: () => ask("/api/sign-out", {}).catch(() => {}).then(again) }, "Sign out"));
  }
  const name = h("input", { id: "editor", type: "text", autocomplete: "username", autocapitalize: "none", spellcheck: "false", required: true });
  const password = h("input", { id: "password", type: "password", autocomplete: "current-password", required: true });
  return section("Sign in to edit", h("form", {
    class: "row",
    onsubmit: async (event) => {
      event.preventDefault();
      const given = { name: name.value, password: password.value };
      password.value = "";
      try {
        await ask("/api/sign-in", given);
        said = "";
      } catch (error) {
        said = error.message;
      }
      again();
    },
  }, h("label", { for: "editor" }, "Name"), name, h("label", { for: "password" }, "Password"), password, h("button", { type: "submit", "data-key": "sign in" }, "Sign in")));
}

// What keeps people out of a page: controls without a name, empty heads, ids twice, targets too small, text too faint.
const faults = [];
const seen = (element) => element.checkVisibility({ visibilityProperty: true }) && element.getClientRects().length > 0;
const nameOf = (element) => (element.getAttribute("aria-label") ?? [...(element.labels ?? [])].map((label) => label.textContent).join(" "))
  || element.textContent.trim();
const short = (element) => element.outerHTML.slice(0, 90);

for (const control of document.querySelectorAll("a[href], button, input, select, textarea, summary")) {
  if (!seen(control)) continue;
  if (!nameOf(control).trim()) faults.push(`no name: ${short(control)}`);
  const { width, height } = control.getBoundingClientRect();
  // Links in a row of a table or a sentence have the line's height.
  if (control.tagName !== "A" && !control.matches(".sort, .skip") && (width < 20 || height < 16)) faults.push(`small: ${short(control)}`);
}
for (const head of document.querySelectorAll("th")) if (seen(head) && !head.textContent.trim() && !head.closest(".u-legend")) faults.push("an empty head");
for (const image of document.querySelectorAll("[role=img]")) if (!image.getAttribute("aria-label")) faults.push(`no name: ${short(image)}`);
const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
for (const id of new Set(ids.filter((each, index) => ids.indexOf(each) !== index))) faults.push(`twice: #${id}`);
const heads = [...document.querySelectorAll("main h1, main h2")].map((head) => head.tagName);
if (heads.filter((tag) => tag === "H1").length !== 1 || heads[0] !== "H1") faults.push("not one h1 that comes first");

const parts = (colour) => (colour.match(/[\d.]+/g) ?? []).map(Number).slice(0, 4);
const scale = (colour) => (colour.startsWith("color(srgb") ? 1 : 255);
const light = (colour) => parts(colour).slice(0, 3).map((part) => part / scale(colour))
  .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
  .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
const clear = (colour) => colour === "transparent" || parts(colour)[3] === 0;
function behind(element) {
  for (let each = element; each; each = each.parentElement) {
    const colour = getComputedStyle(each).backgroundColor;
    if (!clear(colour) && (parts(colour)[3] ?? 1) === 1) return colour;
  }
  return "rgb(255, 255, 255)";
}
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const element = texts.currentNode.parentElement;
  if (!texts.currentNode.data.trim() || !seen(element) || element.closest("noscript, .unseen, .skip")) continue;
  const style = getComputedStyle(element);
  const [one, other] = [light(style.color), light(behind(element))];
  const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  if (contrast < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5)) faults.push(`contrast ${contrast.toFixed(1)}: ${texts.currentNode.data.trim().slice(0, 40)}`);
}
return faults;

// Charts by uPlot, in the page's own colours; they follow its width and the change between light and dark.

import { h } from "./dom.js";
import { compact, moment } from "./format.js";

const dark = window.matchMedia("(prefers-color-scheme: dark)");
let made = [];
let drawn = [];

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// The charts made since the last call are on the page now: forget those of the page before.
export function adoptCharts() {
  for (const { plot, watch } of drawn) {
    watch.disconnect();
    plot?.destroy();
  }
  drawn = made;
  made = [];
}

// A chart. `range` is the time shown, in ms; the newest step may end after it. `series` are { label, values, told, colour, kind: "line" | "bar" | "dash" | "step", show }: the legend tells
// `told`, where it is not what is drawn. `spans` are [from, to] in ms that are tinted red, `unknown` is one that is tinted
// grey: nothing is known of it. `times` in ms. Values are by column, null where there is none.
export function chart({ title, times, series, spans = [], unknown = null, range = null, unit = compact, height = 210 }) {
  const box = h("div", { class: "chart", role: "img", "aria-label": describe(title, series, unit) });
  const entry = { plot: null, watch: null };
  const draw = () => {
    const width = Math.floor(box.clientWidth);
    if (width === 0) return;
    entry.plot?.destroy();
    entry.plot = new window.uPlot(options({ times, series, spans, unknown, range, unit, height, width }),
      [times.map((at) => at / 1000), ...series.map((each) => each.values)], box);
  };
  entry.redraw = draw;
  const fit = () => {
    const width = Math.floor(box.clientWidth);
    if (!box.isConnected || width === 0) return;
    if (!entry.plot) draw();
    else if (entry.plot.width !== width) entry.plot.setSize({ width, height });
  };
  // In a frame of its own: a chart that changes its box while boxes are being measured is an error to browsers.
  entry.watch = new ResizeObserver(() => requestAnimationFrame(fit));
  entry.watch.observe(box);
  made.push(entry);
  return box;
}

dark.addEventListener("change", () => drawn.forEach(({ redraw }) => redraw()));

// What a screen reader says in place of the picture.
function describe(title, series, unit) {
  const newest = series.map((each) => `${each.label} ${unit((each.told ?? each.values).findLast((value) => value !== null) ?? null)}`);
  return `${title}. Newest: ${newest.join(", ")}`;
}

function options({ times, series, spans, unknown, range, unit, height, width }) {
  const quiet = colour("quiet");
  const newestMs = times.at(-1);
  const [begin, end] = range ?? [times[0], newestMs];
  const shown = [begin / 1000, Math.max(end, newestMs) / 1000];
  const told = (at) => moment(new Date(Math.min(at * 1000, end)).toISOString(), new Date(end).toISOString());
  const axis = { stroke: quiet, font: "12px system-ui, sans-serif", ticks: { show: false } };
  const grid = { stroke: colour("line"), width: 1 };
  return {
    width,
    height,
    tzDate: (seconds) => window.uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    padding: [10, 30, 0, 0],
    cursor: { drag: { x: false, y: false }, points: { size: 6 } },
    legend: { live: true },
    scales: {
      x: { range: () => shown },
      y: { range: (_plot, _low, high) => [0, Math.max(high ?? 0, 1) * 1.08] },
    },
    axes: [
      { ...axis, grid: { show: false }, values: TICKS, space: 76 },
      { ...axis, grid, size: 54, values: (_plot, splits) => splits.map((value) => unit(value)) },
    ],
    series: [{ label: "UTC", value: (_plot, at) => (at === null ? "" : told(at)) }, ...series.map((each) => line(each, unit))],
    hooks: { drawClear: [(plot) => tint(plot, spans, "red-wash"), (plot) => tint(plot, unknown ? [unknown] : [], "grey-wash")], ready: [newest], setCursor: [newest] },
  };
}

// uPlot's table of tick steps: step in seconds, its text, and a second line where the year, month or day changes.
const TICKS = [
  [86400, "{MMM} {D}", null, null, null, null, null, null, 1],
  [3600, "{HH}:{mm}", "\n{MMM} {D}", null, "\n{MMM} {D}", null, null, null, 1],
  [60, "{HH}:{mm}", "\n{MMM} {D}", null, "\n{MMM} {D}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", "\n{MMM} {D}", null, "\n{MMM} {D}", null, null, null, 1],
];

function line({ label, values, told = values, colour: name, kind = "line", show = true }, unit) {
  const stroke = colour(name);
  const common = { label, stroke, show, width: 1.75, value: (_plot, value, _series, index) => unit(told[index] ?? (index === null ? null : value)), spanGaps: false };
  if (kind === "bar") {
    return { ...common, width: 0, fill: stroke, points: { show: false }, paths: window.uPlot.paths.bars({ size: [0.8, 14], align: -1 }) };
  }
  if (kind === "dash") {
    return { ...common, width: 1.25, dash: [5, 4], points: { show: false }, paths: window.uPlot.paths.stepped({ align: 1 }) };
  }
  // A lone point between gaps would be invisible as a line.
  const points = { show: values.filter((value) => value !== null).length < 3 };
  if (kind === "step") return { ...common, points, paths: window.uPlot.paths.stepped({ align: 1 }) };
  return { ...common, points };
}

// Where no cursor is, the legend tells the newest values.
function newest(plot) {
  if (plot.cursor.idx === null || plot.cursor.idx === undefined) plot.setLegend({ idx: plot.data[0].length - 1 }, false);
}

// Times that differ from others, behind everything else.
function tint(plot, spans, wash) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.fillStyle = colour(wash);
  for (const [from, to] of spans) {
    const left = Math.max(bbox.left, plot.valToPos(from / 1000, "x", true));
    const right = Math.min(bbox.left + bbox.width, plot.valToPos(to / 1000, "x", true));
    if (right > left) ctx.fillRect(left, bbox.top, Math.max(right - left, 2), bbox.height);
  }
  ctx.restore();
}

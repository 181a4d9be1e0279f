// Numbers, times and durations as people read them. Times are UTC, as everywhere in pid-quota.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const NONE = "–";

export function count(value) {
  if (value === null || value === undefined) return NONE;
  return Math.abs(value) < 10 && !Number.isInteger(value) ? fine.format(value) : whole.format(value);
}

export function compact(value) {
  return value === null || value === undefined ? NONE : Math.abs(value) < 10_000 ? count(value) : short.format(value);
}

export function percent(share) {
  if (share === null || share === undefined) return NONE;
  if (share > 0 && share < 0.005) return "< 1 %";
  return share >= 10 ? `${fine.format(share)} ×` : `${whole.format(share * 100)} %`;
}

export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

export function bytes(value) {
  if (value === null || value === undefined) return NONE;
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (value < 1000 || unit === "GB") return `${value < 10 && unit !== "B" ? fine.format(value) : whole.format(value)} ${unit}`;
    value /= 1000;
  }
  return NONE;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds < 1) return "0 s";
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7200 && seconds % 3600 !== 0) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

const two = (number) => String(number).padStart(2, "0");

export function clock(moment) {
  const at = new Date(moment);
  return `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}`;
}

// The time alone where it is today, with the day where it is not.
export function moment(iso, now) {
  if (!iso) return NONE;
  const day = iso.slice(0, 10);
  return day === String(now).slice(0, 10) ? clock(iso) : `${day} ${clock(iso).slice(0, 5)}`;
}

// Names come from strangers: what steers text (control and direction characters) is shown, not obeyed.
export function visible(name) {
  return String(name).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (char) => `\\u{${char.codePointAt(0).toString(16)}}`);
}

export const text = (value) => visible(value ?? NONE);

export const ago = (seconds) => `${duration(seconds)} ago`;

// A moment as columns of a page of `now` tell it.
export const at = (now) => (iso) => moment(iso, now);

export const unscored = (value) => text(value).replaceAll("_", " ");

// Keeps an open page up to date: the server sends changed elements by their ids.
// A hidden page asks for no changes.

const main = document.getElementById("content");
const pulse = document.getElementById("pulse");
const template = document.createElement("template");
let source = null;
let heard = 0;
const held = [];
/** By how many seconds the server's clock is ahead of this machine's. */
const aheadS = main?.dataset.now ? Number(main.dataset.now) - Date.now() / 1000 : 0;
let taker = null;

/** Makes `take` the receiver of devices, including those that came before this call. */
export function onGrid(take) {
  taker = take;
  held.splice(0).forEach(take);
}

/** Makes an element from HTML that the server has written and escaped. */
function made(html) {
  template.innerHTML = html;
  return template.content.firstElementChild;
}

/** Puts in changed elements and the order of rows; unchanged elements keep focus and selection. */
function apply(changes) {
  for (const [id, html] of Object.entries(changes.set || {})) {
    document.getElementById(id)?.replaceWith(made(html));
  }
  for (const [where, ids] of Object.entries(changes.order || {})) {
    const container = document.getElementById(where);
    if (!container) continue;
    const wanted = new Set(ids);
    for (const row of [...container.children]) if (!wanted.has(row.id)) row.remove();
    let after = null;
    for (const id of ids) {
      let row = document.getElementById(id);
      if (!row) {
        if (!changes.set?.[id]) continue;
        row = made(changes.set[id]);
        row.classList.add("new");
      }
      const place = after ? after.nextElementSibling : container.firstElementChild;
      if (place !== row) container.insertBefore(row, place);
      after = row;
    }
  }
  times();
}

/** A length of time in the command line's form, in its two largest units: 12s, 1h53m, 3d4h. */
function length(seconds) {
  let left = Math.max(Math.floor(seconds), 0);
  const parts = [];
  for (const [unit, step] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
    const count = Math.floor(left / step);
    left -= count * step;
    if (count || parts.length) parts.push(count ? `${count}${unit}` : "");
  }
  return parts.slice(0, 2).join("") || "0s";
}

/** The wall-clock time by the server's clock, whatever the clock of this machine says. */
function serverNow() {
  return main.dataset.clock === "still" ? Number(main.dataset.now) : Date.now() / 1000 + aheadS;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** A time on the clock; with the day unless it is today, and with the year unless it is this one.
 *  The browser's own functions for forms of dates take longer than everything else here. */
export function clock(at) {
  const when = new Date(at * 1000), today = new Date(serverNow() * 1000);
  const [hours, minutes] = [when.getHours(), when.getMinutes()].map((one) => String(one).padStart(2, "0"));
  const [year, month, day] = [when.getFullYear(), when.getMonth(), when.getDate()];
  const isThisYear = year === today.getFullYear();
  if (isThisYear && month === today.getMonth() && day === today.getDate()) return `${hours}:${minutes}`;
  return `${day} ${MONTHS[month]}${isThisYear ? "" : ` ${year}`} ${hours}:${minutes}`;
}

/** The text of a mark on an axis: a time of day, or the day if it is midnight or marks are days. */
function mark(at, isDay) {
  const when = new Date(at * 1000);
  const [hours, minutes] = [when.getHours(), when.getMinutes()].map((one) => String(one).padStart(2, "0"));
  if (isDay || `${hours}${minutes}` === "0000") return `${when.getDate()} ${MONTHS[when.getMonth()]}`;
  return `${hours}:${minutes}`;
}

function times() {
  const now = serverNow();
  for (const one of document.querySelectorAll("time[data-at]")) {
    const at = Number(one.dataset.at), ago = now - at;
    const text = `${ago >= 0 ? `${length(ago)} ago` : `in ${length(-ago)}`}, ${clock(at)}`;
    if (one.textContent !== text) one.textContent = text;
  }
  for (const one of document.querySelectorAll("[data-since]")) {
    const text = length(now - Number(one.dataset.since));
    if (one.textContent !== text) one.textContent = text;
  }
  for (const one of document.querySelectorAll("text[data-clock]")) {
    const text = mark(Number(one.dataset.clock), !one.textContent.includes(":"));
    if (one.textContent !== text) one.textContent = text;
  }
  if (pulse && heard) {
    const quiet = Date.now() / 1000 - heard;
    pulse.textContent = quiet < 90 ? "live" : `no word from the server for ${length(quiet)}`;
  }
}

function listen() {
  if (source || document.hidden || main.dataset.live === "no" || main.dataset.live === "wait") return;
  const seen = `${location.search ? "&" : "?"}seen=${main.dataset.live}`;
  source = new EventSource(`/live${location.pathname}${location.search}${seen}`);
  source.addEventListener("changes", (event) => {
    heard = Date.now() / 1000;
    apply(JSON.parse(event.data));
  });
  source.addEventListener("grid", (event) => {
    const news = JSON.parse(event.data);
    if (taker) taker(news); else held.push(news);
  });
  source.addEventListener("still", () => { heard = Date.now() / 1000; times(); });
  source.addEventListener("gone", () => location.reload());
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) { source?.close(); source = null; } else listen();
});
document.addEventListener("submit", (event) => {
  const question = event.target.dataset?.confirm;
  if (question && !window.confirm(question)) event.preventDefault();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(input|select|textarea)$/i.test(event.target.tagName)) {
    const search = document.querySelector("input[type=search]");
    if (search) { event.preventDefault(); search.focus(); }
  }
});
if (main.dataset.live === "wait") {
  fetch(location.href).finally(() => location.reload());
} else {
  setInterval(times, 1000);
  times();
  listen();
}

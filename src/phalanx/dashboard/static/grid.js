// The map of all devices: a row of cells for each node, as large as the window allows. A job's cells
// are outlined together and named. Every fact that the pointer shows, the arrow keys show too.

import { colourOf, fillOfLook, inkOn, readColours, shadeOf, sign } from "./looks.js";
import { onGrid } from "./page.js";

const canvas = document.getElementById("grid");
const note = document.getElementById("grid-note");
const legend = document.getElementById("grid-legend");
const by = document.getElementById("grid-by");
const GAP = 2, PAD = 10, LARGEST = 44, SMALLEST = 7, LISTED = 30;
const OTHERS = -2, CLOSED = -3;
const MARKS = ["", "bad, nothing new goes there", "cordoned, nothing new goes there", "suspect"];
const COLUMNS = ["held", "holder", "mark", "busy", "memory", "heat"];
let data = null, starts = [], lit = null, chosen = null, colours = readColours();
let fits = {}, explained = "";
let cell = LARGEST, broad = LARGEST, label = 90, columns = 1, most = 1;
/** The chosen measure. The browser answers `by.value` too slowly to be asked for each cell. */
let measure = by.value;

const isByName = () => measure === "holder" || measure === "queue";
/** The job or queue that a holder stands for. */
function nameOf(holder) { return measure === "queue" ? data.holders[holder][1] : data.holders[holder][0]; }
function lookOf(holder) { return data.holders[holder][measure === "queue" ? 4 : 3]; }
function shortName(name) { return name.split("/").pop(); }

/** Chooses the highest cells with which the map is at most two thirds of a window high, and makes them
 *  as broad as the canvas allows. */
function fit(width) {
  most = Math.max(...data.devices, 1);
  const longest = Math.max(...data.nodes.map((name) => [...name].length), 4) + 2;
  const high = Math.max(innerHeight * 0.66, 260);
  for (cell = LARGEST; cell > SMALLEST; cell--) {
    broad = cell;
    label = Math.min(longest * Math.min(cell * 0.5, 7.5) + 12, 150);
    columns = Math.max(Math.min(Math.floor((width - PAD) / wide()), data.nodes.length), 1);
    const fitsWide = PAD + columns * wide() <= width;
    if (fitsWide && Math.ceil(data.nodes.length / columns) * (cell + GAP + 3) + 2 * PAD <= high) break;
  }
  broad = cell;
  columns = Math.max(Math.min(Math.floor((width - PAD) / wide()), data.nodes.length), 1);
  const lines = Math.ceil(data.nodes.length / columns);
  columns = Math.ceil(data.nodes.length / lines);
  broad = Math.max(Math.min(((width - PAD) / columns - PAD - label) / most - GAP, cell * 5), 2);
}

function wide() { return label + most * (broad + GAP) + PAD; }

function place(node) {
  const lines = Math.ceil(data.nodes.length / columns);
  return { x: PAD + Math.floor(node / lines) * wide(), y: PAD + (node % lines) * (cell + GAP + 3) };
}

/** Whether the chosen measure of a cell is known. */
function isRead(at) { return isByName() || measure === "idle" || data[measure][at] >= 0; }

/** The colour of one cell by the chosen measure; null for a cell without any. */
function fillOf(at) {
  const holder = data.holder[at];
  if (isByName()) return !data.held[at] ? null : holder >= 0 ? fillOfLook(lookOf(holder)) : colours.off;
  if (measure === "idle") {
    if (!data.held[at]) return null;
    return data.busy[at] < 0 ? colours.off : data.busy[at] < 5 ? colours.jobs[1] : colours.heat[5];
  }
  const value = measure === "heat" ? (data.heat[at] < 0 ? -1 : (data.heat[at] - 30) * 100 / 60) : data[measure][at];
  return isRead(at) ? shadeOf(value) : null;
}

function draw() {
  if (!data) return;
  measure = by.value;
  if (Object.keys(fits).length > 5000) fits = {};
  const scale = devicePixelRatio || 1, width = canvas.clientWidth;
  fit(width);
  const lines = Math.ceil(data.nodes.length / columns);
  const height = PAD * 2 + lines * (cell + GAP + 3);
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.textBaseline = "middle";
  pen.font = `${Math.max(Math.min(cell * 0.7, 13), 9)}px system-ui, sans-serif`;
  data.nodes.forEach((name, node) => drawName(pen, name, node));
  data.nodes.forEach((_, node) => drawCells(pen, node));
  if (chosen) {
    const { x, y } = place(chosen.node);
    pen.strokeStyle = colours.ink;
    pen.lineWidth = 3;
    pen.strokeRect(x + label + chosen.device * (broad + GAP) - 2, y - 2, broad + 4, cell + 4);
  }
}

function drawName(pen, name, node) {
  const { x, y } = place(node), state = data.states[node];
  pen.fillStyle = state === "alive" ? colours.ink : colours.soft;
  pen.fillText(fitted(pen, (state === "alive" ? "" : "◔ ") + name, label - 6), x, y + cell / 2);
}

function drawCells(pen, node) {
  const { x, y } = place(node), count = data.devices[node];
  for (let i = 0; i < count; ) {
    const at = starts[node] + i;
    let end = i + 1;
    while (end < count && data.holder[starts[node] + end] === data.holder[at] && data.holder[at] >= 0) end++;
    drawRun(pen, x + label + i * (broad + GAP), y, at, end - i);
    i = end;
  }
}

/** Draws neighbouring cells of one holder: each filled as far as it is held, all in one outline. */
function drawRun(pen, left, y, at, count) {
  const holder = data.holder[at];
  let isWhole = isByName() && holder >= 0;
  for (let k = 0; isWhole && k < count; k++) isWhole = data.held[at + k] === 100;
  const wide = count * (broad + GAP) - GAP, isLit = holder >= 0 && lit !== null && nameOf(holder) === lit;
  if (isWhole) {
    if (!isLit) {  // the outline; filling it is faster than drawing its lines
      pen.fillStyle = colours.soft;
      pen.fillRect(left - 1, y - 1, wide + 2, cell + 2);
    }
    pen.fillStyle = fillOf(at);
    pen.fillRect(left, y, wide, cell);
    pen.fillStyle = colours.paper;
    for (let k = 1; k < count; k++) pen.fillRect(left + k * (broad + GAP) - GAP / 2, y, 0.5, cell);
  }
  for (let k = 0; !isWhole && k < count; k++) {
    const x = left + k * (broad + GAP), fill = fillOf(at + k);
    const part = isByName() || measure === "idle" ? data.held[at + k] : 100;
    if (!fill || part < 100) {
      pen.fillStyle = colours.rest;
      pen.fillRect(x, y, broad, cell);
    }
    if (!fill && isRead(at + k)) continue;
    if (!fill) {
      pen.fillStyle = colours.paper;
      pen.fillRect(x + 1, y + 1, broad - 2, cell - 2);
      continue;
    }
    const high = Math.max((cell * part) / 100, 2), joint = k + 1 < count && isByName() ? GAP : 0;
    pen.fillStyle = fill;
    pen.fillRect(x, y + cell - high, broad + joint, high);
  }
  if (holder >= 0) {
    if (isLit || !isWhole) {
      pen.strokeStyle = isLit ? colours.ink : colours.soft;
      pen.lineWidth = isLit ? 3 : 1;
      pen.strokeRect(left - 0.5, y - 0.5, wide + 1, cell + 1);
    }
    if (isByName() && cell >= 13) {
      const colour = colourOf(lookOf(holder)), size = Math.min(cell * 0.6, 13);
      pen.font = `600 ${size}px system-ui, sans-serif`;
      const text = fitted(pen, shortName(nameOf(holder)), wide - 6);
      if (text) {
        if (lookOf(holder) >= 12) {
          pen.fillStyle = colour;
          pen.fillRect(left + 2, y + cell / 2 - size / 2 - 1, pen.measureText(text).width + 4, size + 2);
        }
        pen.fillStyle = inkOn(colour);
        pen.fillText(text, left + 4, y + cell / 2 + 0.5);
      }
    }
  }
  for (let k = 0; k < count; k++) sign(pen, data.mark[at + k], left + k * (broad + GAP) + (broad - cell) / 2, y, cell);
}

/** The text, or as much of it as fits; "" where not even two letters do. */
function fitted(pen, text, room) {
  const asked = `${pen.font}/${room.toFixed(0)}/${text}`;
  if (!(asked in fits)) fits[asked] = cut(pen, text, room);
  return fits[asked];
}

function cut(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  const letters = [...text], one = pen.measureText("m").width;
  let count = Math.min(letters.length, Math.floor(room / (one * 0.55)));
  while (count > 0 && pen.measureText(`${letters.slice(0, count).join("")}…`).width > room) count--;
  return count > 1 ? `${letters.slice(0, count).join("")}…` : room > one ? letters[0] : "";
}

/** What a cell shows, as data: its node, device, holder and readings. */
function facts(node, device) {
  if (device === null) return { node: data.nodes[node], id: data.ids[node], device };
  const at = starts[node] + device, holder = data.holder[at];
  return {
    node: data.nodes[node], id: data.ids[node], device, held: data.held[at],
    holder: holder >= 0 ? data.holders[holder].slice(0, 3) : null,
    words: holder === OTHERS ? "tasks and actors" : "nobody", isClosed: holder === CLOSED,
    mark: data.mark[at], busy: data.busy[at], memory: data.memory[at], heat: data.heat[at],
    look: holder >= 0 ? lookOf(holder) : null, shared: data.shared[at] ?? "",
  };
}

/** The numbers of the node and device at a point of the canvas. */
function at(x, y) {
  if (!data) return null;
  const lines = Math.ceil(data.nodes.length / columns);
  const line = Math.floor((y - PAD) / (cell + GAP + 3)), column = Math.floor((x - PAD) / wide());
  const node = column * lines + line;
  if (line < 0 || line >= lines || column < 0 || !(node in data.nodes)) return null;
  const right = x - place(node).x - label;
  if (right < 0) return { node, device: null };
  const device = Math.floor(right / (broad + GAP));
  return device < data.devices[node] ? { node, device } : null;
}

function cellAt(x, y) {
  const found = at(x, y);
  return found && facts(found.node, found.device);
}

/** The middle of a device's cell on the canvas. */
function middleOf(name, device) {
  const { x, y } = place(data.nodes.indexOf(name));
  return { x: x + label + device * (broad + GAP) + broad / 2, y: y + cell / 2 };
}

/** Says what a cell shows, and lights the cells of its holder. */
function tell(one) {
  const held = one?.holder ? (measure === "queue" ? one.holder[1] : one.holder[0]) : null;
  const reading = (value, unit) => (value >= 0 ? `, ${value} ${unit}` : "");
  note.textContent = !one ? "" : one.device === null ? one.node
    : `${one.node}, device ${one.device}: ${one.isClosed ? "" : `${one.held} % held by ${one.holder ? `${one.holder[0]} of queue ${one.holder[1]}` : one.words}`}`
      + (one.mark ? `${one.isClosed ? "" : "; "}${MARKS[one.mark]}` : "")
      + reading(one.busy, "% busy") + reading(one.memory, "% of its memory") + reading(one.heat, "°C")
      + (one.shared ? `; ${one.shared}` : "");
  if (held !== lit) { lit = held; draw(); }
}

function open(one) {
  const job = one?.holder?.[2];
  if (one) location.href = job ? `/jobs/${job.split("/").map(encodeURIComponent).join("/")}` : `/nodes/${one.id}`;
}

function swatch(paint) {
  const small = document.createElement("canvas"), scale = devicePixelRatio || 1;
  small.width = small.height = 16 * scale;
  small.className = "swatch";
  small.setAttribute("aria-hidden", "true");
  const pen = small.getContext("2d");
  pen.scale(scale, scale);
  paint(pen);
  return small;
}

function entry(paint, text, address) {
  const item = document.createElement("li");
  const words = document.createElement(address ? "a" : "span");
  words.textContent = text;
  if (address) words.href = address;
  item.append(swatch(paint), words);
  return item;
}

const filled = (colour) => (pen) => { pen.fillStyle = colour; pen.fillRect(0, 0, 16, 16); };
const marked = (mark) => (pen) => { filled(colours.rest)(pen); sign(pen, mark, 0, 0, 16); };

/** The entries of the legend for the chosen measure, as data: how each is painted, its text, its
 *  address, and the name whose cells it lights. */
function entries() {
  const found = [];
  const add = (kind, value, text, address = "", lights = "") => found.push({ kind, value, text, address, lights });
  if (isByName()) {
    const shown = new Map();
    data.holders.forEach((one, holder) => {
      const name = nameOf(holder), known = shown.get(name) ?? { holder, count: 0 };
      shown.set(name, known);
    });
    data.holder.forEach((holder, at) => { if (holder >= 0) shown.get(nameOf(holder)).count += data.held[at] / 100; });
    const all = [...shown].sort((one, other) => other[1].count - one[1].count);
    for (const [name, { holder, count }] of all.slice(0, LISTED)) {
      const look = lookOf(holder), job = data.holders[holder][2];
      const address = measure === "queue" ? `/queues/${encodeURIComponent(name)}`
        : job ? `/jobs/${job.split("/").map(encodeURIComponent).join("/")}` : "";
      add("look", look, `${name.replace(/^default\//, "")}, ${Number(count.toFixed(2))} GPU`, address, name);
    }
    if (all.length > LISTED) add("colour", colours.paper, `and ${all.length - LISTED} more, in the table`);
    if (data.holder.includes(OTHERS)) add("colour", colours.off, "tasks and actors");
  } else if (measure === "idle") {
    add("colour", colours.jobs[1], "held, and idle");
    add("colour", colours.heat[5], "held, and busy");
    add("colour", colours.off, "held, not read");
  } else {
    const names = measure === "heat" ? ["30 °C", "40 °C", "50 °C", "60 °C", "70 °C", "from 85 °C"]
      : ["0 %", "up to 24 %", "up to 48 %", "up to 71 %", "up to 95 %", "above"];
    names.forEach((text, level) => add("colour", colours.heat[level], text));
  }
  const isHeldShown = isByName() || measure === "idle";
  add("colour", isHeldShown ? colours.rest : colours.paper, isHeldShown ? "free" : "not read");
  [1, 2, 3].forEach((mark) => { if (data.mark.includes(mark)) add("mark", mark, MARKS[mark].split(",")[0]); });
  return found;
}

function itemOf({ kind, value, text, address, lights }) {
  const paint = kind === "mark" ? marked(value) : filled(kind === "look" ? fillOfLook(value) : value);
  const item = entry(paint, text, address);
  for (const [begin, end] of lights ? [["mouseenter", "mouseleave"], ["focusin", "focusout"]] : []) {
    item.addEventListener(begin, () => { lit = lights; draw(); });
    item.addEventListener(end, () => { lit = null; draw(); });
  }
  return item;
}

/** Shows the legend. Unchanged entries stay, with the focus of their reader. */
function explain() {
  const found = entries(), said = JSON.stringify([found, colours.jobs]);
  if (said === explained) return;
  explained = said;
  legend.replaceChildren(...found.map(itemOf));
}

function redraw() {
  colours = readColours();
  draw();
  if (data) explain();
}

canvas.addEventListener("mousemove", (event) => {
  const box = canvas.getBoundingClientRect(), one = cellAt(event.clientX - box.left, event.clientY - box.top);
  canvas.style.cursor = one ? "pointer" : "default";
  tell(one);
});
canvas.addEventListener("mouseleave", () => tell(chosen && facts(chosen.node, chosen.device)));
canvas.addEventListener("click", (event) => {
  const box = canvas.getBoundingClientRect();
  open(cellAt(event.clientX - box.left, event.clientY - box.top));
});
const STEPS = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
canvas.addEventListener("keydown", (event) => {
  if (!data?.nodes.length) return;
  if (event.key === "Enter" && chosen) open(facts(chosen.node, chosen.device));
  if (event.key === "Escape") chosen = null;
  const step = STEPS[event.key];
  if (step) {
    event.preventDefault();
    const node = Math.min(Math.max((chosen?.node ?? 0) + (chosen ? step[0] : 0), 0), data.nodes.length - 1);
    const device = Math.min(Math.max((chosen?.device ?? 0) + (chosen ? step[1] : 0), 0), data.devices[node] - 1);
    chosen = { node, device };
  }
  tell(chosen && facts(chosen.node, chosen.device));
  draw();
});
canvas.addEventListener("blur", () => { chosen = null; tell(null); draw(); });
by.addEventListener("change", redraw);
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

/** Takes the whole grid, or its changed cells: the cell's number, then its value in each column. */
function take(news) {
  if (news.nodes) {
    data = news;
    starts = [];
    let first = 0;
    for (const count of data.devices) { starts.push(first); first += count; }
    chosen = null;
  } else if (data) {
    data.holders = news.holders ?? data.holders;
    data.shared = news.shared ?? data.shared;
    for (const [number, ...values] of news.cells) COLUMNS.forEach((name, k) => { data[name][number] = values[k]; });
  }
  redraw();
}

window.phalanx = { grid: { cellAt, middleOf, draw } };
onGrid(take);

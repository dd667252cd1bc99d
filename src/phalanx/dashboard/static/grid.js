// The grid of all devices: one row per node, one cell per device, filled by its held part. Hovering
// lights all cells of one holder. A closed device is crossed out. A click opens the job or the node.

import { onGrid } from "./page.js";

const canvas = document.getElementById("grid");
const note = document.getElementById("grid-note");
const by = document.getElementById("grid-by");
const CELL = 18, GAP = 2, LABEL = 130, ROW = 22, PAD = 8;
const OTHERS = -2, CLOSED = -3;
let data = null;
let starts = [];
let lit = null;
let columns = 1;
let width = 0;

function names() { return data.holders.map((one) => (by.value === "queue" ? one[1] : one[0])); }

/** A colour for a name: the same on every page, and distinct from its neighbours. */
function colour(name, isDark) {
  let hash = 2166136261;
  for (const letter of name) hash = Math.imul(hash ^ letter.codePointAt(0), 16777619) >>> 0;
  return `hsl(${(hash * 137.508) % 360} 62% ${isDark ? 62 : 46}%)`;
}

function place(node) {
  const most = Math.max(...data.devices, 1);
  const wide = LABEL + most * (CELL + GAP) + PAD * 2;
  columns = Math.max(Math.floor(width / wide), 1);
  return { x: PAD + (node % columns) * wide, y: PAD + Math.floor(node / columns) * ROW };
}

function draw() {
  if (!data) return;
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink"), rest = style.getPropertyValue("--rest");
  const soft = style.getPropertyValue("--soft");
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const scale = devicePixelRatio || 1;
  width = canvas.clientWidth;
  place(0);
  const height = PAD * 2 + Math.ceil(data.nodes.length / columns) * ROW;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.font = "12px system-ui, sans-serif";
  pen.textBaseline = "middle";
  const called = names();
  const colours = called.map((name) => colour(name, isDark));
  data.nodes.forEach((name, node) => {
    const { x, y } = place(node);
    pen.fillStyle = data.states[node] === "alive" ? ink : soft;
    const sign = data.states[node] === "alive" ? "" : "◔ ";
    let label = sign + name;
    while (label.length > 4 && pen.measureText(label).width > LABEL - 8) label = `${label.slice(0, -2)}…`;
    pen.fillText(label, x, y + CELL / 2);
    for (let i = 0; i < data.devices[node]; i++) {
      const at = starts[node] + i, left = x + LABEL + i * (CELL + GAP);
      const holder = data.holder[at], held = data.held[at];
      pen.fillStyle = rest;
      pen.fillRect(left, y, CELL, CELL);
      if (holder === CLOSED) {
        pen.strokeStyle = soft;
        pen.lineWidth = 2;
        pen.beginPath();
        pen.moveTo(left + 4, y + 4); pen.lineTo(left + CELL - 4, y + CELL - 4);
        pen.moveTo(left + CELL - 4, y + 4); pen.lineTo(left + 4, y + CELL - 4);
        pen.stroke();
      }
      if (held) {
        const high = Math.max((CELL * held) / 100, 2);
        pen.fillStyle = holder >= 0 ? colours[holder] : soft;
        pen.fillRect(left, y + CELL - high, CELL, high);
        if (holder >= 0) {
          pen.fillStyle = isDark ? "#000" : "#fff";
          pen.textAlign = "center";
          pen.fillText([...called[holder].split("/").pop()][0] ?? "", left + CELL / 2, y + CELL / 2 + 1);
          pen.textAlign = "left";
        }
      }
      if (lit !== null && held && holder >= 0 && called[holder] === lit) {
        pen.strokeStyle = ink;
        pen.lineWidth = 2;
        pen.strokeRect(left - 1, y - 1, CELL + 2, CELL + 2);
      }
    }
  });
}

/** The node, device and holder at a point of the canvas. */
function cellAt(x, y) {
  if (!data) return null;
  for (let node = 0; node < data.nodes.length; node++) {
    const { x: left, y: top } = place(node);
    if (y < top || y >= top + CELL || x < left) continue;
    if (x < left + LABEL) return { node: data.nodes[node], id: data.ids[node], device: null };
    const device = Math.floor((x - left - LABEL) / (CELL + GAP));
    if (device >= data.devices[node]) continue;
    const at = starts[node] + device, holder = data.holder[at];
    return {
      node: data.nodes[node], id: data.ids[node], device, held: data.held[at],
      holder: holder >= 0 ? data.holders[holder] : null,
      words: holder === OTHERS ? "tasks and actors" : "nobody",
      isClosed: holder === CLOSED,
    };
  }
  return null;
}

function under(event) {
  const box = canvas.getBoundingClientRect();
  return cellAt(event.clientX - box.left, event.clientY - box.top);
}

canvas.addEventListener("mousemove", (event) => {
  const cell = under(event);
  const held = cell?.holder ? (by.value === "queue" ? cell.holder[1] : cell.holder[0]) : null;
  note.textContent = !cell ? "" : cell.device === null ? cell.node
    : cell.isClosed ? `${cell.node}, device ${cell.device}: closed, nothing new goes there`
    : `${cell.node}, device ${cell.device}: ${cell.held} % held by ${cell.holder ? `${cell.holder[0]} of queue ${cell.holder[1]}` : cell.words}`;
  canvas.style.cursor = cell ? "pointer" : "default";
  if (held !== lit) { lit = held; draw(); }
});
canvas.addEventListener("mouseleave", () => { lit = null; note.textContent = ""; draw(); });
canvas.addEventListener("click", (event) => {
  const cell = under(event);
  if (!cell) return;
  const job = cell.holder?.[2];
  location.href = job ? `/jobs/${job.split("/").map(encodeURIComponent).join("/")}` : `/nodes/${cell.id}`;
});
by.addEventListener("change", draw);
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

/** Takes the whole grid, or its changed cells: [cell, held, holder] each. */
function take(news) {
  if (news.nodes) {
    data = news;
    starts = [];
    let at = 0;
    for (const count of data.devices) { starts.push(at); at += count; }
  } else if (data) {
    data.holders = news.holders ?? data.holders;
    for (const [cell, held, holder] of news.cells) { data.held[cell] = held; data.holder[cell] = holder; }
  }
  draw();
}

window.phalanx = { grid: { cellAt } };
onGrid(take);

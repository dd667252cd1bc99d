// How jobs, queues and readings look on maps: colours and textures by number, and shades by amount.

const COLOURS = 12;
const SHADES = 6;
const style = () => getComputedStyle(document.documentElement);
let colours = {};
let patterns = {};

/** Reads the page's colours again, after the browser has changed between light and dark. */
export function readColours() {
  const from = style();
  const value = (name) => from.getPropertyValue(name).trim();
  colours = { jobs: [], heat: [] };
  patterns = {};
  for (let i = 0; i < COLOURS; i++) colours.jobs.push(value(`--j${i}`));
  for (let i = 0; i < SHADES; i++) colours.heat.push(value(`--h${i}`));
  for (const name of ["ink", "soft", "rest", "paper", "bad", "line", "off"]) colours[name] = value(`--${name}`);
  return colours;
}

/** The colour of a look. */
export function colourOf(look) { return colours.jobs[look % COLOURS]; }

/** The shade of a part of 0 to 100: the first only for nothing, the last only from 95 on. */
export function shadeOf(part) {
  if (part <= 0) return colours.heat[0];
  return colours.heat[Math.min(1 + Math.floor(part / 95 * (SHADES - 2)), SHADES - 1)];
}

/** White or black, whichever can be read on a colour. */
export function inkOn(colour) {
  const parts = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
  const [r, g, b] = parts.map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000" : "#fff";
}

/** What to fill with for a look: its colour, or a pattern of its colour and texture, made once. */
export function fillOfLook(look) {
  const kind = Math.floor(look / COLOURS);
  if (!kind) return colourOf(look);
  return (patterns[look] ??= patternOf(look, kind));
}

function patternOf(look, kind) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  pen.fillStyle = colourOf(look);
  pen.fillRect(0, 0, 6, 6);
  pen.strokeStyle = pen.fillStyle = inkOn(colourOf(look));
  pen.globalAlpha = 0.55;
  pen.lineWidth = 1.5;
  pen.beginPath();
  if (kind === 3) {
    pen.rect(2, 2, 2, 2);
    pen.fill();
  } else {
    for (const shift of [-6, 0, 6]) {
      pen.moveTo(shift - 1, kind === 1 ? 7 : -1);
      pen.lineTo(shift + 7, kind === 1 ? -1 : 7);
    }
    pen.stroke();
  }
  return pen.createPattern(tile, "repeat");
}

/** Draws the sign of a bad (1), cordoned (2) or suspect (3) device into its cell. */
export function sign(pen, mark, x, y, size) {
  if (!mark) return;
  const inset = Math.max(size * 0.2, 1.5), right = x + size - inset, low = y + size - inset;
  const line = (points) => {
    pen.beginPath();
    points.forEach(([a, b, starts]) => (starts ? pen.moveTo(a, b) : pen.lineTo(a, b)));
  };
  const strokes = () => {
    for (const [colour, wide] of [[colours.paper, size / 4 + 1], [mark === 1 ? colours.bad : colours.ink, size / 9 + 1]]) {
      pen.strokeStyle = colour;
      pen.lineWidth = wide;
      pen.stroke();
    }
  };
  if (mark === 1) {
    line([[x + inset, y + inset, true], [right, low], [right, y + inset, true], [x + inset, low]]);
  } else if (mark === 2) {
    line([[x + inset, y + size / 2, true], [right, y + size / 2]]);
  } else {
    line([[x + size / 2, y + inset, true], [right, low], [x + inset, low], [x + size / 2, y + inset]]);
  }
  strokes();
}

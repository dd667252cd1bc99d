// The output of a member, as it grows. It is shown as text and never as HTML.

const section = document.getElementById("log");
const text = document.getElementById("log-text");
const note = document.getElementById("log-note");
const find = document.getElementById("log-find");
const follow = document.getElementById("log-follow");
const KEPT = 2_000_000;
let member = "";
let next = null;
let timer = 0;
let whole = "";
/** The number of answers without new output since the last one with some. */
let quiet = 0;

function show() {
  const words = find.value.toLowerCase();
  if (!words) { text.textContent = whole; } else {
    const lines = whole.split("\n").filter((line) => line.toLowerCase().includes(words));
    text.textContent = lines.join("\n");
    note.textContent = `${lines.length} lines with these words`;
  }
  if (follow.checked) text.scrollTop = text.scrollHeight;
}

async function read() {
  clearTimeout(timer);
  const mine = member;
  if (!mine || document.hidden) return;
  const asked = new URLSearchParams({ member: mine });
  if (next !== null) asked.set("offset", next);
  let wait = 1000;
  try {
    const answer = await fetch(`${section.dataset.path}?${asked}`, { credentials: "same-origin" });
    if (mine !== member) return;
    if (!answer.ok) {
      note.textContent = await answer.text();
      wait = 5000;
    } else {
      const part = await answer.json();
      if (part.skipped) whole += `[${part.skipped} bytes are not shown]\n`;
      quiet = part.text ? 0 : quiet + 1;
      wait = Math.min(1000 * (1 + quiet), 5000);
      if (part.text) { whole = (whole + part.text).slice(-KEPT); show(); }
      else if (next === null) show();
      next = part.next;
      if (!find.value) note.textContent = part.size < 0 ? "The output is no longer kept." : `${part.size} bytes`;
      if (part.more) wait = 0;
    }
  } catch { note.textContent = "The server gives no answer."; wait = 3000; }
  timer = setTimeout(read, wait);
}

function open(name) {
  member = name;
  next = null;
  whole = "";
  quiet = 0;
  document.getElementById("log-of").textContent = member;
  section.hidden = false;
  text.textContent = "";
  read();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-log]");
  if (!button) return;
  open(button.dataset.log);
  section.scrollIntoView({ block: "nearest" });
});
find.addEventListener("input", show);
follow.addEventListener("change", show);
document.addEventListener("visibilitychange", read);
// The first output is shown at once, beside the use. A record has no outputs.
const first = document.querySelector("button[data-log]");
if (first && document.getElementById("content").dataset.clock !== "still") open(first.dataset.log);

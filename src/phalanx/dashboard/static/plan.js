// Says what a bar of a chart stands for, to the pointer and to the keyboard alike.

const note = document.getElementById("plan-note");
const usual = note.textContent;

function tell(event) {
  const bar = event.target.closest?.(".bar[aria-label]");
  const lane = bar?.closest("[data-lane]")?.dataset.lane ?? "";
  note.textContent = bar ? lane + bar.getAttribute("aria-label") : usual;
}

for (const kind of ["focusin", "mouseover"]) document.addEventListener(kind, tell);
document.addEventListener("focusout", () => { note.textContent = usual; });

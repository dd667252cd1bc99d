// Says what a bar of the plan stands for, to the pointer and to the keyboard alike.

const note = document.getElementById("plan-note");
const usual = note.textContent;

function tell(event) {
  const bar = event.target.closest?.("[data-words]");
  note.textContent = bar ? bar.dataset.words : usual;
}

for (const kind of ["focusin", "mouseover"]) document.addEventListener(kind, tell);
document.addEventListener("focusout", () => { note.textContent = usual; });

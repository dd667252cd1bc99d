// Arrow keys scroll a code block or a table only while it has the focus.
function focusWhatScrolls() {
  for (const one of document.querySelectorAll("article pre, article table.docutils")) {
    if (one.scrollWidth > one.clientWidth) one.tabIndex = 0;
    else one.removeAttribute("tabindex");
  }
}
addEventListener("DOMContentLoaded", focusWhatScrolls);
addEventListener("resize", focusWhatScrolls);

// Takes the code out of the address's fragment, which no server or log sees, and signs in with it.

const found = /(?:^#|&)code=([A-Za-z0-9_-]+)/.exec(location.hash);
if (found) {
  history.replaceState(null, "", location.pathname);
  const form = document.getElementById("login");
  form.elements.code.value = found[1];
  form.submit();
}

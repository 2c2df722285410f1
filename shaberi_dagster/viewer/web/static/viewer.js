// Keys, a sign that work is being done, and pages that follow a run. Everything else is plain links and forms.
"use strict";

const keyed = () => [...document.querySelectorAll("[data-key]")].filter((one) => one.offsetParent !== null);

function follow(element) {
  if (element.matches("input, select, textarea")) {
    element.focus();
    element.select?.();
  } else {
    element.click();
  }
}

function step(by) {
  const rows = [...document.querySelectorAll("[data-row]")];
  const at = rows.indexOf(document.activeElement);
  rows[Math.min(Math.max(at + by, 0), rows.length - 1)]?.focus();
}

function help() {
  const dialog = document.querySelector("#keys");
  const list = dialog.querySelector("dl");
  list.replaceChildren(
    ...keyed().flatMap((one) => {
      const key = document.createElement("dt");
      const meaning = document.createElement("dd");
      key.append(Object.assign(document.createElement("kbd"), { textContent: one.dataset.key }));
      meaning.textContent = one.dataset.means || one.textContent.trim() || one.getAttribute("aria-label") || "";
      return [key, meaning];
    }),
  );
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input:not([type=checkbox]), select, textarea");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (typing) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const found = keyed().find((one) => one.dataset.key === event.key);
  if (event.key === "?") help();
  else if (found) follow(found);
  else if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
  else return;
  event.preventDefault();
});

document.addEventListener("click", (event) => {
  const copies = event.target.closest("[data-copy]");
  if (copies) {
    navigator.clipboard?.writeText(location.href).then(() => (copies.textContent = "copied"));
  }
  const unfolds = event.target.closest("[data-unfold]");
  if (unfolds) {
    const all = [...document.querySelectorAll(`details.${unfolds.dataset.unfold}`)];
    const open = !all.every((one) => one.open);
    all.forEach((one) => (one.open = open));
  }
  const link = event.target.closest("a[href]");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey && !link.getAttribute("href").startsWith("#")) busy(true);
});

const busy = (is) => document.body.classList.toggle("busy", is);
document.addEventListener("submit", () => busy(true));
window.addEventListener("pageshow", () => busy(false));
document.addEventListener("change", (event) => {
  if (event.target.closest("form[data-auto]")) event.target.form.requestSubmit();
});

// A form sends only what is chosen, so that addresses stay short.
document.addEventListener("formdata", (event) => {
  for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
});

async function refresh() {
  const main = document.querySelector("main[data-live]");
  if (!main) return;
  try {
    const page = await (await fetch(location.href)).text();
    const fresh = new DOMParser().parseFromString(page, "text/html").querySelector("main");
    if (fresh) main.replaceWith(fresh);
  } catch {
    main.querySelector("[data-lost]")?.removeAttribute("hidden");
  }
  setTimeout(refresh, 2000);
}
window.addEventListener("load", () => setTimeout(refresh, 2000));

// Keys, a sign that work is being done, and pages that follow a run. Everything else is plain links and forms.
"use strict";

// In a file, links to what is not in it have no address.
const keyed = () => [...document.querySelectorAll("[data-key]:not(a:not([href], [data-unfold]))")].filter((one) => one.offsetParent !== null);

let followed = null; // the link whose page is on its way; Escape stops that

function follow(element) {
  if (element.matches("input:not([type=checkbox]), select, textarea")) {
    element.focus();
    element.select?.();
  } else {
    element.click();
  }
}

function step(by) {
  const rows = [...document.querySelectorAll("[data-row][href]")].filter((one) => one.offsetParent !== null);
  const at = rows.indexOf(document.activeElement);
  rows[Math.min(Math.max(at + by, 0), rows.length - 1)]?.focus();
}

// A key that several tables have, or several pages of a file, is of that which one is in.
function meant(key) {
  const all = keyed().filter((one) => one.dataset.key === key);
  const places = [document.activeElement.closest("form"), document.querySelector(":target")];
  const walks = key === "j" || key === "k"; // in a file from a row of a list, not from what some page far below has
  const elsewhere = walks && document.body.matches(".file") ? undefined : all[0];
  return places.map((place) => all.find((one) => place?.contains(one))).find(Boolean) ?? elsewhere;
}

const rowBox = () => document.activeElement.closest("tr")?.querySelector("input[type=checkbox]");

function showChosen() {
  for (const place of document.querySelectorAll("[data-chosen]")) {
    const chosen = new FormData(place.closest("form")).getAll("m");
    place.textContent = chosen.length ? `${chosen.length} chosen: ${chosen.join(" · ")}` : "none chosen";
  }
}

function help() {
  const dialog = document.querySelector("#keys");
  const list = dialog.querySelector("dl");
  const opens = { dataset: { key: "Enter", means: "open the row that has the focus" } };
  const rows = document.querySelector("[data-row][href]") ? [opens] : [];
  const first = new Map([...rows, ...keyed().reverse()].map((one) => [one.dataset.key, one]));
  list.replaceChildren(
    ...[...first.values()].reverse().flatMap((one) => {
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
  if (event.key === "Escape") followed = null;
  if (typing) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const found = meant(event.key);
  const isStep = event.key === "j" || event.key === "k";
  if (event.key === "?") help();
  else if (found && found === followed) return; // a second click would only ask for its page again
  else if (found) follow(found);
  else if (event.key === "x" && rowBox()) rowBox().click();
  else if (isStep && document.querySelector(".file :target [data-key='j']")) return; // the file has no further question
  else if (isStep) step(event.key === "j" ? 1 : -1);
  else if (event.key === "u" && !document.body.matches(".file")) history.back(); // no list is named here
  else return;
  event.preventDefault();
});

document.addEventListener("click", (event) => {
  const copies = event.target.closest("[data-copy]");
  if (copies) {
    const copied = () => {
      copies.textContent = "copied";
      document.body.classList.add("copied");
      setTimeout(() => document.body.classList.remove("copied"), 1500);
    };
    if (navigator.clipboard) navigator.clipboard.writeText(location.href).then(copied);
    else window.prompt("Copy this address:", location.href); // other machines' browsers have none without https
  }
  if (event.target.closest("[data-help]")) help();
  const unfolds = event.target.closest("[data-unfold]:not([href])"); // in a file, which has no other address
  if (unfolds) {
    const all = [...document.querySelectorAll(`details.${unfolds.dataset.unfold}`)];
    const open = !all.every((one) => one.open);
    all.forEach((one) => (one.open = open));
  }
  const link = event.target.closest("a[href]");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey && !link.getAttribute("href").startsWith("#")) {
    followed = link;
    busy(true);
  }
});

const busy = (is) => document.body.classList.toggle("busy", is);
document.addEventListener("submit", () => busy(true));
window.addEventListener("pageshow", () => {
  followed = null;
  busy(false);
  showChosen();
  // The row that an address names is where walking continues.
  document.querySelector("tr:target [data-row]")?.focus();
});
// Models that are chosen in a ranking stay so on its other pages: they stand in the address.
function keepChosen(form) {
  const chosen = new FormData(form).getAll("m");
  const kept = (link) => {
    const url = new URL(link);
    url.searchParams.delete("m");
    chosen.forEach((model) => url.searchParams.append("m", model));
    return url;
  };
  history.replaceState(null, "", kept(location));
  for (const link of document.querySelectorAll("a[data-key=n], a[data-key=p]")) link.href = kept(link.href);
}

document.addEventListener("change", (event) => {
  showChosen();
  if (event.target.name === "m" && event.target.closest("table.ranking")) keepChosen(event.target.form);
  if (event.target.closest("form[data-auto]")) event.target.form.requestSubmit();
});

// A form sends only what is chosen, so that addresses stay short.
document.addEventListener("formdata", (event) => {
  for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
  if (event.target.matches("[data-auto]") && document.querySelector("table.ranking"))
    for (const model of new URL(location).searchParams.getAll("m")) event.formData.append("m", model);
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

// A file has its pages folded, but for the first one.
function unfold() {
  const target = document.getElementById(location.hash.slice(1));
  for (let place = target; place; place = place.parentElement) if (place.matches("details")) place.open = true;
  target?.scrollIntoView();
}
if (document.body?.matches(".file")) { // a page of the viewer has no body yet
  addEventListener("hashchange", unfold);
  unfold();
}

"use strict";
// Follows Airflow's theme, refreshes the page, and opens Airflow's own pages outside of the frame in which Airflow shows this one.

const REFRESH_MS = 5000;
const SLOWEST_MS = 60000; // between two tries while the server does not answer
const SELECTED_MS = 20000; // for a text that a button has selected to be copied by hand

function followTheme() {
  let theme = null;
  try {
    theme = localStorage.getItem("theme"); // where Airflow's UI keeps it: light, dark or system
  } catch {
    // A browser may forbid it. Then the system's theme is taken.
  }
  if (theme === "light" || theme === "dark") {
    document.documentElement.dataset.theme = theme;
  } else {
    delete document.documentElement.dataset.theme;
  }
}

followTheme();
addEventListener("storage", followTheme);

/** The document of Airflow's UI, if it shows this page in a frame. */
function outerDocument() {
  try {
    return parent === window ? null : parent.document;
  } catch {
    return null;
  }
}

/** The frame that Airflow shows this page in may not open other pages, but Airflow's own document may. */
function openOutside(event) {
  const link = event.target.closest("a[target='_top']");
  const outer = outerDocument();
  if (!link || !outer || event.button > 1) {
    return;
  }
  event.preventDefault();
  const twin = outer.createElement("a");
  twin.href = link.href;
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button === 1) {
    twin.target = "_blank";
    twin.rel = "noopener";
  }
  outer.body.append(twin);
  twin.click();
  twin.remove();
}

let selected = { code: null, until: 0 }; // what a button has selected, and until when that keeps the page from being refreshed

async function copy(event) {
  const button = event.target.closest("button.copy");
  if (!button) {
    return;
  }
  const code = button.parentElement.querySelector("code");
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(code);
    selected = { code, until: Date.now() + SELECTED_MS };
    button.textContent = "Selected: press Ctrl+C";
  }
}

function showButtons() {
  for (const button of document.querySelectorAll("button.copy, #pause")) {
    button.hidden = false;
  }
}

/** Why a refresh would take something out of the viewer's hands; empty if it would not. */
function inUse() {
  if (!paused && selected.code && Date.now() > selected.until) {
    if (selected.code.contains(getSelection().anchorNode)) {
      getSelection().removeAllRanges();
    }
    selected = { code: null, until: 0 }; // what the viewer selects from now on is the viewer's
  }
  if (!getSelection().isCollapsed) {
    return "Not refreshed while text is selected";
  }
  return document.activeElement?.matches("select, input") ? "Not refreshed while you fill in the filter" : "";
}

function replaceContent(html) {
  const content = document.getElementById("content");
  const fresh = document.createElement("main");
  fresh.id = "content";
  fresh.append(...new DOMParser().parseFromString(html, "text/html").body.childNodes);
  for (const open of content.querySelectorAll("details[open][id]")) {
    const same = fresh.querySelector(`#${CSS.escape(open.id)}`);
    if (same) {
      same.open = true;
    }
  }
  const scrolled = new Map([...content.querySelectorAll(".wide[aria-label]")].map((each) => [each.ariaLabel, each.scrollLeft]));
  const path = pathOf(document.activeElement, content);
  content.replaceWith(fresh);
  showButtons();
  for (const wide of fresh.querySelectorAll(".wide[aria-label]")) {
    wide.scrollLeft = scrolled.get(wide.ariaLabel) ?? 0;
  }
  focusOn(path, fresh);
}

/** How to find an element again: by the nearest id, and by its number among what can be focused below that. */
const FOCUSABLE = "a, button, summary, [tabindex]";

function pathOf(element, content) {
  if (!element || !content.contains(element)) {
    return null;
  }
  const near = element.closest("[id]");
  return { id: near.id, number: [...near.querySelectorAll(FOCUSABLE)].indexOf(element), isNear: near === element };
}

function focusOn(path, fresh) {
  if (!path) {
    return;
  }
  const near = path.id === "content" ? fresh : fresh.querySelector(`#${CSS.escape(path.id)}`);
  const element = path.isNear ? near : near?.querySelectorAll(FOCUSABLE)[path.number];
  element?.focus({ preventScroll: true });
}

let paused = false;
let failures = 0;

async function refresh() {
  const told = document.getElementById("refreshing");
  if (inUse()) {
    told.textContent = inUse();
  } else if (!paused && !document.hidden) {
    try {
      const answer = await fetch(`content${location.search}`, { credentials: "same-origin", cache: "no-store" });
      if (answer.ok) {
        const html = await answer.text();
        if (!paused && !inUse()) {
          replaceContent(html);
        }
        failures = 0;
        told.textContent = "";
      } else {
        failures += 1;
        told.textContent = answer.status === 401 ? "Not refreshed: your login has expired" : `Not refreshed: error ${answer.status}`;
      }
    } catch {
      failures += 1;
      told.textContent = "Not refreshed: Airflow does not answer";
    }
    document.getElementById("content").classList.toggle("stale", failures > 0);
  }
  setTimeout(refresh, Math.min(REFRESH_MS * 2 ** failures, SLOWEST_MS));
}

function togglePause(event) {
  paused = !paused;
  event.currentTarget.setAttribute("aria-pressed", String(paused));
}

addEventListener("DOMContentLoaded", () => {
  document.addEventListener("click", openOutside);
  document.addEventListener("auxclick", openOutside);
  document.addEventListener("click", copy);
  const pause = document.getElementById("pause");
  if (pause) {
    pause.addEventListener("click", togglePause);
    showButtons();
    setTimeout(refresh, REFRESH_MS);
  }
});

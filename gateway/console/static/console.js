// The console without this script is whole: it only keeps the page fresh, and adds the theme switch and copying.
"use strict";

const REFRESH_MS = 2000;
const GIVE_UP_MS = 8000;
const THEMES = ["auto", "light", "dark"];
const root = document.documentElement;

// Before the page is painted, so that it never flashes in the other theme.
let theme = THEMES.includes(stored("theme")) ? stored("theme") : "auto";
root.dataset.theme = theme;
root.classList.add("js");

document.addEventListener("DOMContentLoaded", () => {
  showThemeSwitch();
  showCopyButtons(document);
  const live = document.querySelector("[data-live]");
  if (live) keepFresh(live);
});

function showThemeSwitch() {
  const button = document.getElementById("theme");
  const name = () => { button.textContent = `Theme: ${theme}`; };
  button.hidden = false;
  name();
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    root.dataset.theme = theme;
    try { localStorage.setItem("theme", theme); } catch { /* a private window keeps it for this page */ }
    name();
  });
}

function stored(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}

function showCopyButtons(within) {
  if (!navigator.clipboard) return;
  for (const button of within.querySelectorAll("[data-copy]")) button.hidden = false;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});

// --- staying fresh ------------------------------------------------------------------------------

function keepFresh(live) {
  const link = document.getElementById("link");
  let timer = 0;

  const say = (state, words) => {
    if (link.dataset.state === state) return;
    link.dataset.state = state;
    link.textContent = words;
  };

  const refresh = async () => {
    clearTimeout(timer);
    if (document.hidden) return say("paused", "Paused");
    try {
      const response = await fetch(live.dataset.live, { signal: AbortSignal.timeout(GIVE_UP_MS) });
      if (response.status === 401) return location.reload();
      if (!response.ok) throw new Error(String(response.status));
      const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
      put(live, fresh.querySelector("[data-live]"));
      say("live", "Live");
    } catch {
      say("lost", "Connection lost, trying again");
    }
    timer = setTimeout(refresh, REFRESH_MS);
  };

  document.addEventListener("visibilitychange", refresh);
  say("live", "Live");
  timer = setTimeout(refresh, REFRESH_MS);
}

function put(live, fresh) {
  const before = poolStates(live);
  morph(live, fresh);
  showCopyButtons(live);
  const changed = [...poolStates(live)].filter(([pool, state]) => before.get(pool) !== state);
  if (changed.length) {
    const words = changed.map(([pool, state]) => `${pool} is ${state.toLowerCase()}`).join(", ");
    document.getElementById("news").textContent = words;
  }
}

function poolStates(live) {
  return new Map([...live.querySelectorAll("[data-pool]")].map((pool) => [pool.dataset.pool, pool.dataset.state]));
}

// Makes `old` equal to `fresh` with as few changes as it takes: what stays the same keeps focus, selection and scroll.
function morph(old, fresh) {
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const named = new Map([...old.children].filter((child) => child.id).map((child) => [child.id, child]));
  let place = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const kept = child.id ? named.get(child.id) : isLike(place, child) ? place : null;
    if (!kept) {
      const added = document.importNode(child, true);
      if (added.dataset && "new" in added.dataset) added.classList.add("arrived");
      old.insertBefore(added, place);
    } else if (kept === place) {
      place = place.nextSibling;
      update(kept, child);
    } else {
      old.insertBefore(kept, place);
      update(kept, child);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function isLike(old, fresh) {
  return old && old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && !old.id;
}

function update(old, fresh) {
  if (old.nodeType === Node.ELEMENT_NODE) {
    if (!old.isEqualNode(fresh)) morph(old, fresh);
  } else if (old.nodeValue !== fresh.nodeValue) {
    old.nodeValue = fresh.nodeValue;
  }
}

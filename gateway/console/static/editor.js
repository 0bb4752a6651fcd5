// The editor without this script is whole: it only checks while somebody types, and leads from a mistake to its place.
"use strict";

const CHECK_AFTER_MS = 500;
const form = document.getElementById("policy");
const text = document.getElementById("document");
const PARTS = ["gutter", "marks", "verdict", "findings", "findings-below"];
let timer = 0;

text.addEventListener("input", () => {
  number(text.value.split("\n").length);
  document.getElementById("marks").textContent = text.value + "\n";
  clearTimeout(timer);
  timer = setTimeout(check, CHECK_AFTER_MS);
});

form.addEventListener("click", (event) => {
  const link = event.target.closest("[data-line]");
  if (!link) return;
  event.preventDefault();
  const before = text.value.split("\n").slice(0, Number(link.dataset.line) - 1);
  const at = before.reduce((sum, line) => sum + line.length + 1, 0) + Number(link.dataset.column) - 1;
  text.focus();
  text.setSelectionRange(at, at);
  document.getElementById(`line-${link.dataset.line}`).scrollIntoView({ block: "center" });
});

// A tab is two spaces here; Escape, then Tab leaves the field.
let leaves = false;
text.addEventListener("keydown", (event) => {
  if (event.key === "Tab" && !event.shiftKey && !leaves) {
    event.preventDefault();
    text.setRangeText("  ", text.selectionStart, text.selectionEnd, "end");
    text.dispatchEvent(new Event("input"));
  }
  leaves = event.key === "Escape";
});

async function check() {
  const sent = text.value;
  const fields = new URLSearchParams(new FormData(form));
  fields.set("act", "check");
  try {
    const response = await fetch(form.action, { method: "POST", body: fields });
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    if (text.value !== sent || !fresh.getElementById("policy")) return;
    for (const name of PARTS) document.getElementById(name).replaceWith(fresh.getElementById(name));
    text.toggleAttribute("aria-invalid", fresh.getElementById("document").hasAttribute("aria-invalid"));
  } catch { /* the button checks as well */ }
}

function number(lines) {
  const gutter = document.getElementById("gutter");
  gutter.replaceChildren(...Array.from({ length: lines }, (_, place) => {
    const line = document.createElement("span");
    line.id = `line-${place + 1}`;
    line.textContent = place + 1;
    return line;
  }).flatMap((line) => [line, "\n"]));
}

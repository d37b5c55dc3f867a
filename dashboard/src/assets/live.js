// Keeps the page like the hub: fragments come over one stream and are put into the page where they differ. Without this
// script every page works all the same, and is as old as its last reload.
"use strict";

const SECOND = 1000;
const page = document.getElementById("page");
let stream;

// While nobody sees the page nothing is sent.
function listen() {
  const url = page && page.dataset.live;
  if (!url || document.hidden || stream) return;
  stream = new EventSource(url);
  stream.addEventListener("fragment", (event) => show(event.data));
  stream.onopen = () => lost("");
  stream.onerror = () => {
    // A stream that was refused is not tried again by itself.
    if (stream && stream.readyState === EventSource.CLOSED) {
      stream = undefined;
      lost("The dashboard does not let this page in any more: reload it, or open a new link (press Enter where it runs).");
    } else {
      lost("The dashboard does not answer: is kubectl fleet dashboard still running?");
    }
  };
}

function rest() {
  if (stream) stream.close();
  stream = undefined;
}

document.addEventListener("visibilitychange", () => (document.hidden ? rest() : listen()));
window.addEventListener("pagehide", rest);
window.addEventListener("pageshow", listen);

// The program itself has ended, or the machine slept.
function lost(says) {
  document.body.classList.toggle("lost", says !== "");
  let note = document.getElementById("lost");
  if (says && !note) {
    note = document.createElement("div");
    note.id = "lost";
    note.className = "banner stale";
    note.setAttribute("role", "alert");
    page.before(note);
  }
  if (says) note.textContent = says;
  else if (note) note.remove();
}

function show(html) {
  const next = new DOMParser().parseFromString(html, "text/html").getElementById("fragment");
  const now = document.getElementById("fragment");
  if (!next || !now) return;
  const focus = held(now);
  become(now, next);
  document.title = next.dataset.title + " · Flotilla";
  focus();
  decorate();
}

// What is moved loses the focus, and rows and columns are moved whenever another one is worse. Remembers what has it, and
// gives it back: to the same element, or to the one that is now what that was.
function held(within) {
  const element = document.activeElement;
  if (!element || !within.contains(element)) return () => {};
  const cell = element.matches(".matrix .cell");
  const name = element.id ? "#" + CSS.escape(element.id) : element.hasAttribute("href")
    ? (cell ? ".matrix .cell" : "a") + '[href="' + CSS.escape(element.getAttribute("href")) + '"]' : "";
  const row = element.closest("[id]:not(#fragment)");
  return () => {
    const same = (it) => it && it.isConnected && (!name || it.matches(name));
    if (same(element) && document.activeElement === element) return;
    const place = row && row.isConnected ? row : within;
    const found = same(element) ? element : name && (place.querySelector(name) || within.querySelector(name));
    if (!found) return;
    if (cell) {
      for (const other of within.querySelectorAll('.matrix .cell[tabindex="0"]')) other.tabIndex = -1;
      found.tabIndex = 0;
    }
    found.focus({ preventScroll: true });
  };
}

// Makes one element like another, and keeps what is the same: focus, selection and opened parts stay.
function become(now, next) {
  for (const { name } of [...now.attributes]) {
    if (!next.hasAttribute(name) && !own(now, name)) now.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (now.getAttribute(name) !== value && !own(now, name)) now.setAttribute(name, value);
  }
  const known = new Map();
  for (const child of now.children) if (child.id) known.set(child.id, child);
  let at = now.firstChild;
  for (const wanted of [...next.childNodes]) {
    const same = wanted.id && known.get(wanted.id);
    if (same && same !== at) {
      now.insertBefore(same, at);
      at = same;
    }
    if (at && alike(at, wanted)) {
      if (at.nodeType === Node.TEXT_NODE) {
        if (at.data !== wanted.data) at.data = wanted.data;
      } else {
        become(at, wanted);
      }
      at = at.nextSibling;
    } else {
      now.insertBefore(document.importNode(wanted, true), at);
    }
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

function alike(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || "") === (b.id || "");
}

// What the person has done to an element is theirs.
function own(element, name) {
  return (name === "open" && element.localName === "details") || (name === "tabindex" && element.matches(".cell")) ||
    (name === "value" && element === document.activeElement) || (name === "hidden" && element.matches(".copy"));
}

function span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 120) return s + "s";
  if (s < 7200) return Math.floor(s / 60) + "m";
  if (s < 172800) return Math.floor(s / 3600) + "h";
  return Math.floor(s / 86400) + "d";
}

// Times are exact in the page; here they become ages, and the end of a wait becomes what is left of it.
function ages() {
  for (const time of document.querySelectorAll("time")) {
    const away = (Date.now() - Date.parse(time.dateTime)) / SECOND;
    if (Number.isNaN(away)) continue;
    const text = time.matches(".until") ? (away < 0 ? span(-away) + " left" : span(away) + " ago") : span(away) + " ago";
    if (time.textContent !== text) time.textContent = text;
  }
}

function decorate() {
  ages();
  for (const button of document.querySelectorAll(".copy")) button.hidden = false;
  const cells = document.querySelectorAll(".matrix .cell");
  const chosen = document.querySelector('.matrix .cell[tabindex="0"]') || cells[0];
  for (const cell of cells) cell.tabIndex = cell === chosen ? 0 : -1;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest(".copy");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), 2 * SECOND);
});

const STEPS = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const writes = event.target.matches("input, select, textarea");
  const search = document.querySelector("[data-hotkey]");
  if (event.key === "/" && !writes && search) {
    event.preventDefault();
    search.focus();
  }
  const cell = event.target.closest(".matrix .cell");
  if (cell && STEPS[event.key]) {
    event.preventDefault();
    const next = beside(cell, ...STEPS[event.key]);
    if (!next) return;
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
});

// The next cell in a direction that has something in it.
function beside(cell, down, right) {
  const rows = [...cell.closest("table").querySelectorAll("tbody tr:not(.group)")];
  let row = rows.indexOf(cell.closest("tr"));
  let column = cell.closest("td").cellIndex;
  for (;;) {
    row += down;
    column += right;
    const place = rows[row] && rows[row].cells[column];
    if (!place || column < 1) return null;
    const found = place.querySelector(".cell");
    if (found) return found;
  }
}

decorate();
listen();
setInterval(ages, SECOND);

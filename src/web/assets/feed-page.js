// The feed page: new entries come in on top, but never move what is being read.
import { subscribe } from "/assets/feed.js";

const list = /** @type {HTMLOListElement} */ (document.querySelector("ol.feed"));
const note = document.querySelector("#fresh-note");
const button = note?.querySelector("button");
/** @type {object[]} */
let held = [];
const KEEP = 500;

/** Builds the same row as the server does, from text nodes only. */
function row(entry) {
  const item = document.createElement("li");
  item.id = `entry-${entry.position}`;
  item.className = "fresh";
  const time = document.createElement("time");
  time.dateTime = entry.recorded_at;
  time.textContent = new Date(entry.recorded_at).toLocaleTimeString([], { hour12: false });
  const text = document.createElement("span");
  linked(text, entry);
  const kind = document.createElement("a");
  kind.className = "kind";
  kind.href = `#entry-${entry.position}`;
  kind.textContent = entry.type;
  item.append(time, text, kind);
  return item;
}

const PAGES = { task: "/tasks/", directory: "/directories#", project: "/projects#" };

/** Turns each label in the sentence into a link to what it names. */
function linked(into, entry) {
  let rest = entry.text;
  while (rest) {
    let best = null;
    for (const link of entry.links) {
      const at = link.label && PAGES[link.rel] ? rest.indexOf(link.label) : -1;
      if (at >= 0 && (!best || at < best.at)) best = { at, link };
    }
    if (!best) break;
    into.append(rest.slice(0, best.at));
    const anchor = document.createElement("a");
    anchor.href = PAGES[best.link.rel] + encodeURIComponent(best.link.id);
    anchor.textContent = best.link.label;
    into.append(anchor);
    rest = rest.slice(best.at + best.link.label.length);
  }
  into.append(rest);
}

function flush() {
  if (!held.length) return;
  document.querySelector(".empty")?.remove();
  for (const entry of held) list.prepend(row(entry));
  held = [];
  while (list.children.length > KEEP) list.lastElementChild?.remove();
  if (note instanceof HTMLElement) note.hidden = true;
}

subscribe((entry) => {
  held.push(entry);
  if (window.scrollY < 40) {
    requestAnimationFrame(flush);
  } else if (note instanceof HTMLElement && button) {
    button.textContent = held.length === 1 ? "1 new entry" : `${held.length} new entries`;
    note.hidden = false;
  }
});
button?.addEventListener("click", () => {
  scrollTo({ top: 0, behavior: "smooth" });
  flush();
});
addEventListener("scrollend", () => window.scrollY < 40 && flush());

// Owns the EventSource and its resume position. Other modules get entries from `subscribe`.
// Without script the pages are plain lists; with it they are live.

const state = document.querySelector("#live-state");
const after = Number(document.body.dataset.position ?? 0);
let position = after;
let heardAt = 0;

/** @type {Set<(entry: object) => void>} */
const listeners = new Set();

/** @param {(entry: object) => void} listener */
export function subscribe(listener) {
  listeners.add(listener);
}

/** @param {"live" | "lost" | "joining"} name @param {string} text */
function show(name, text) {
  if (!state) return;
  state.dataset.state = name;
  state.textContent = text;
}

function heard() {
  heardAt = Date.now();
  show("live", "live");
}

/** @type {EventSource | null} */
let source = null;

function open() {
  source?.close();
  const filters = new URLSearchParams(document.body.dataset.filters ?? "");
  filters.set("after", String(position));
  const opened = new EventSource(`/api/feed?${filters}`);
  source = opened;
  source.addEventListener("open", heard);
  source.addEventListener("entry", (event) => {
    heard();
    const entry = JSON.parse(event.data);
    if (entry.position <= position) return;
    position = entry.position;
    for (const listener of listeners) listener(entry);
  });
  source.addEventListener("position", (event) => {
    const frame = JSON.parse(event.data);
    position = Math.max(position, frame.position);
    heard();
    if (frame.head > frame.position) show("live", `behind by ${frame.head - frame.position}`);
  });
  source.addEventListener("error", () => {
    show("lost", heardAt ? `as of ${new Date(heardAt).toLocaleTimeString()}` : "not connected");
    // The browser reconnects by itself and says where it was; a closed source (an error status) doesn't.
    if (source === opened && opened.readyState === EventSource.CLOSED) setTimeout(open, 2000);
  });
}

const live = state && document.body.dataset.position;
if (live) open();

// A browser has six connections to a server and may keep pages that were left: each with one of them would make
// the seventh page wait for a minute.
addEventListener("pagehide", () => {
  source?.close();
  source = null;
});
addEventListener("pageshow", (event) => {
  if (live && event.persisted) open();
});

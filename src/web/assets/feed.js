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

function open() {
  const filters = new URLSearchParams(document.body.dataset.filters ?? "");
  filters.set("after", String(position));
  const source = new EventSource(`/api/feed?${filters}`);
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
    if (source.readyState === EventSource.CLOSED) setTimeout(open, 2000);
  });
}

if (state && document.body.dataset.position) open();

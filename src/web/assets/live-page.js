// Any other page: when something happens, the page's live parts are fetched again and replaced by id.
import { subscribe } from "/assets/feed.js";

let timer = 0;
let running = null;

async function refresh() {
  timer = 0;
  running?.abort();
  running = new AbortController();
  try {
    const answer = await fetch(location.href, { signal: running.signal, headers: { Accept: "text/html" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const fresh of page.querySelectorAll("[data-live]")) {
      const old = document.getElementById(fresh.id);
      if (!old || old.innerHTML === fresh.innerHTML) continue;
      // What somebody is about to press or has opened stays as it is until they are done.
      if (old.contains(document.activeElement) && document.activeElement !== document.body) continue;
      const open = new Set([...old.querySelectorAll("details[open][id]")].map((d) => d.id));
      old.replaceWith(document.adoptNode(fresh));
      for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    }
  } catch (error) {
    if (error.name !== "AbortError") throw error;
  }
}

subscribe(() => {
  timer ||= setTimeout(refresh, 150);
});

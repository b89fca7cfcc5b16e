// One long poll for changes drives all refreshes. It pauses while the tab is in the background, and tries
// again with growing pauses while the connection is lost.

import { get } from "./api.js";
import { setNow } from "./words.js";

/** Seconds that the server waits for a change. */
const WAIT_SECS = 30;
/** Milliseconds between two refreshes at least; and as many times as long as the last one took. */
const MIN_PAUSE = 500;
const PAUSE_FACTOR = 3;
/** Longest pause between two tries, in milliseconds. */
const MAX_BACKOFF = 15000;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function visible() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
  });
}

/** Returns a signal that ends a request when the tab goes to the background: browsers have few connections. */
function whileVisible() {
  const controller = new AbortController();
  const look = () => {
    if (document.hidden) controller.abort();
  };
  document.addEventListener("visibilitychange", look, { signal: controller.signal });
  return controller;
}

/**
 * Calls `refresh` for every change, and `tell` with `live`, `paused` or `lost` and an error. Returns
 * when there is no access any more.
 */
export async function follow(refresh, tell) {
  let revision;
  let tries = 0;
  for (;;) {
    if (document.hidden) tell("paused");
    await visible();
    const shown = whileVisible();
    try {
      // After a lost connection the state is read anew, whatever its revision is.
      const changed = await get("/v1/changes", { after: tries ? undefined : revision, timeout_secs: WAIT_SECS }, shown.signal);
      setNow(changed.now);
      const isNew = changed.revision !== revision || tries > 0;
      revision = changed.revision;
      tell("live");
      tries = 0;
      if (!isNew) continue;
      const before = performance.now();
      await refresh();
      await pause(Math.max(MIN_PAUSE, PAUSE_FACTOR * (performance.now() - before)));
    } catch (error) {
      if (shown.signal.aborted) {
        revision = undefined;
        continue;
      }
      if (error.isNoAccess) throw error;
      tell("lost", error);
      tries += 1;
      await pause(Math.min(MAX_BACKOFF, 500 * 2 ** Math.min(tries, 6)));
    } finally {
      shown.abort();
    }
  }
}

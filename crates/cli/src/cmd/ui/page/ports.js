// Opens a port of a job, such as a notebook, in a tab of its own. The server gives an address on another origin, which is
// good for once: the job's page is code of others and must not reach this one.

import { ApiError, post } from "./api.js";
import { tell } from "./dom.js";

/** Opens an address of this machine (`http://127.0.0.1:8888/lab`) that a process of the job listens on. */
export async function openPort(job, index, address) {
  const { port, pathname, search } = new URL(address);
  // The tab is made at once: browsers refuse one that comes after an answer.
  const tab = window.open("about:blank", "_blank");
  if (!tab) {
    tell("the browser has opened no tab: allow this page to open one", "bad");
    return;
  }
  tab.opener = null;
  try {
    const { url } = await post(`/page/jobs/${job}/open`, { index, port: Number(port || 80), path: pathname + search });
    tab.location.replace(url);
  } catch (error) {
    tab.close();
    if (!(error instanceof ApiError)) throw error;
    tell([error.message, ...error.hints].join("; "), "bad");
  }
}

// The service: requests with the user's key, its images, its streams of events. And `make`, which all of the page uses.

const key = document.getElementById("key");

/** Returns an element with a class, children, and properties. Text runs in the direction of its script. */
export function make(tag, className = "", children = [], properties = {}) {
  const content = [children].flat().filter((child) => child !== null);
  const dir = content.some((child) => typeof child === "string") ? "auto" : "";
  const element = Object.assign(document.createElement(tag), { dir, ...properties });
  if (className) element.className = className;
  element.append(...content);
  return element;
}

/** Returns whether the user has entered a key. */
export const hasKey = () => key.value.trim() !== "";

/** Returns a path of the service relative to the page: a proxy may mount both under a path of its own. */
const here = (path) => path.replace(/^\//, "");

/** Returns the path of the service in an address, "" if the address is none of it. */
export function ownPath(address) {
  const base = new URL(".", location.href).href;
  return URL.canParse(address) && address.startsWith(base) ? address.slice(base.length) : "";
}

/** Requests a path of the service, with the user's key if there is one; a refusal shows the field for it. */
export async function request(path, options = {}) {
  const headers = hasKey() ? { Authorization: `Bearer ${key.value.trim()}` } : {};
  const response = await fetch(here(path), { ...options, headers });
  if (response.status === 401) document.getElementById("key-line").hidden = false;
  return response;
}

/** Returns why a response is no stream of events, "" if it is one. What is in between answers with pages of its own. */
export async function problemOf(response) {
  const { ok, status } = response;
  if (ok && response.headers.get("content-type")?.startsWith("text/event-stream")) return "";
  const text = await response.text();
  try {
    const { error } = JSON.parse(text);
    if (error?.message) return error.message;
  } catch {
    // a page
  }
  const title = text.match(/<title>([^<]{1,80})/i)?.[1].trim() ?? `status ${status}`;
  if (status === 413) return `The photo is too large for a proxy in front of the service (${title}).`;
  if (status === 502 || status === 503) return `A proxy in front of the service cannot reach it (${title}).`;
  if (status === 504) return `A proxy in front of the service did not wait for its answer (${title}).`;
  return `Not the service has answered, but something in front of it (${title}).`;
}

/** Returns whether the service can be reached now. */
export async function isReachable() {
  try {
    return (await fetch(here("health/live"), { cache: "no-store" })).ok;
  } catch {
    return false;
  }
}

/** Returns an image of the service. With a key it has to be requested: an image by its address alone sends none. */
export function serviceImage(path, properties) {
  const element = make("img", "", [], properties);
  element.addEventListener("error", () => (element.hidden = true)); // it was removed meanwhile
  if (!hasKey()) {
    element.src = here(path);
    return element;
  }
  element.addEventListener("load", () => URL.revokeObjectURL(element.src), { once: true });
  request(path)
    .then((response) => response.blob())
    .then((blob) => (element.src = URL.createObjectURL(blob)))
    .catch(() => {}); // as without a key: the image stays empty
  return element;
}

/** Yields the server-sent events of a response as [name, values]. */
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (text + value).split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const fields = Object.fromEntries(part.split("\n").map((line) => line.split(/: (.*)/s, 2)));
      if (fields.data) yield [fields.event, JSON.parse(fields.data)];
    }
  }
}

/** Calls `changed` when the user enters another key, which is kept until the tab is closed. */
export function keepKey(changed) {
  key.value = sessionStorage.getItem("omgm-key") ?? "";
  document.getElementById("key-line").hidden = !key.value;
  key.addEventListener("change", () => {
    sessionStorage.setItem("omgm-key", key.value.trim());
    changed();
  });
}

"use strict";

const FIRST_CANDIDATES = 5; // shown before "Show all"
const LARGE = 4 * 2 ** 20; // bytes above which an image is shrunk before it is sent
const MAX_SIDE = 2048; // pixels of a shrunk image

const byId = (id) => document.getElementById(id);
const [form, file, question, ask, drop] = ["form", "file", "question", "ask", "drop"].map(byId);
const key = byId("key");
let image = null;
let running = null;

/** Returns an element with a class, children, and properties. */
function make(tag, className = "", children = [], properties = {}) {
  const element = Object.assign(document.createElement(tag), properties);
  if (className) element.className = className;
  element.append(...[children].flat().filter((child) => child !== null));
  return element;
}

// The service

/** Requests a path of the service, with the user's key if there is one; a refusal shows the field for it. */
async function request(path, options = {}) {
  const headers = key.value.trim() ? { Authorization: `Bearer ${key.value.trim()}` } : {};
  const response = await fetch(path, { ...options, headers });
  if (response.status === 401) byId("key-line").hidden = false;
  return response;
}

/** Returns an image of the service. With a key it has to be requested: an image by its address alone sends none. */
function serviceImage(path, properties) {
  const element = make("img", "", [], properties);
  if (!key.value.trim()) {
    element.src = path;
    return element;
  }
  element.addEventListener("load", () => URL.revokeObjectURL(element.src), { once: true });
  request(path)
    .then((response) => response.blob())
    .then((blob) => (element.src = URL.createObjectURL(blob)))
    .catch(() => {}); // as without a key: the image stays empty
  return element;
}

key.addEventListener("change", () => {
  sessionStorage.setItem("omgm-key", key.value.trim()); // gone with the tab
  loadExamples().catch(() => {});
});

// The image

function setImage(blob) {
  image = blob;
  const preview = byId("preview");
  if (preview.src) URL.revokeObjectURL(preview.src);
  preview.src = URL.createObjectURL(blob);
  preview.alt = `Your photo${blob.name ? `: ${blob.name}` : ""}`;
  preview.hidden = byId("change").hidden = false;
  byId("drop-text").hidden = true;
  drop.classList.add("filled");
  showError("");
}

byId("preview").addEventListener("error", (event) => {
  event.target.hidden = true; // only its name is shown; the service will say what is wrong with it
  byId("drop-text").hidden = false;
  byId("file-hint").textContent = image?.name ?? "this file cannot be shown";
});

file.addEventListener("change", () => {
  if (file.files.length) setImage(file.files[0]);
  file.value = ""; // so that choosing the same file again is a change too
});

document.addEventListener("paste", (event) => {
  const pasted = [...(event.clipboardData?.files ?? [])];
  if (pasted.length) setImage(pasted[0]);
});

for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    drop.classList.toggle("over", kind === "dragenter" || kind === "dragover");
    if (kind === "drop" && event.dataTransfer.files.length) setImage(event.dataTransfer.files[0]);
  });
}

/** Shrinks a large image; one that the browser cannot decode is returned as it is, for the service to judge. */
async function shrunk(blob) {
  if (blob.size < LARGE) return blob;
  try {
    const bitmap = await createImageBitmap(blob);
    const scale = Math.min(1, MAX_SIDE / Math.max(bitmap.width, bitmap.height));
    const canvas = make("canvas", "", [], { width: bitmap.width * scale, height: bitmap.height * scale });
    const context = canvas.getContext("2d");
    context.fillStyle = "#fff";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    return (await new Promise((done) => canvas.toBlob(done, "image/jpeg", 0.92))) ?? blob;
  } catch {
    return blob;
  }
}

// Asking

form.addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});

question.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
});

async function submit() {
  if (!image) {
    file.focus();
    return showError("Choose a photo first.");
  }
  if (!question.value.trim()) {
    question.focus();
    return showError("Type a question first.");
  }
  running?.abort();
  const own = (running = new AbortController());
  const asked = question.value.trim();
  busy(true);
  try {
    const body = new FormData();
    const bytes = await (await shrunk(image)).arrayBuffer(); // fails if the file was changed after it was chosen
    body.append("image", new Blob([bytes]), image.name ?? "image");
    body.append("question", asked);
    const response = await request("answer", { method: "POST", body, signal: own.signal });
    const reply = await response.json();
    if (own !== running) return;
    if (response.status === 401) {
      key.focus();
      return showError(key.value.trim() ? "The key is not valid." : "This service needs a key. Enter it above the question.");
    }
    if (!response.ok) return showError(reply.error.message);
    showError("");
    showReply(reply, asked);
  } catch (error) {
    if (error.name === "NotReadableError") showError("The photo can no longer be read. Choose it again.");
    else if (error.name !== "AbortError") showError("The service cannot be reached. Is it still running?");
  } finally {
    if (own === running) busy(false);
  }
}

function busy(on) {
  ask.setAttribute("aria-disabled", on);
  ask.textContent = on ? "Asking…" : "Ask";
  byId("result").setAttribute("aria-busy", on);
}

function showError(message) {
  const error = byId("error");
  error.textContent = message && message[0].toUpperCase() + message.slice(1) + (/[.?!…]$/.test(message) ? "" : ".");
  error.hidden = !message;
  if (!message) return;
  byId("found").hidden = true;
  byId("idle").hidden = true;
  error.scrollIntoView({ block: "nearest", behavior: "smooth" });
}

// Showing

function showReply(reply, asked) {
  byId("idle").hidden = true;
  byId("found").hidden = false;
  showAnswer(reply, asked);
  showEntity(reply.entity);
  showEvidence(reply.evidence);
  showCandidates(reply.candidates, reply.entity);
  showTimes(reply.timings_ms);
  byId("about").textContent = `${reply.index.name}: ${reply.index.entities.toLocaleString()} entities.`;
  if (byId("answer").getBoundingClientRect().top > innerHeight * 0.75) byId("answer").scrollIntoView({ behavior: "smooth" });
}

function showAnswer(reply, asked) {
  const failed = reply.generator_error;
  const missing = failed
    ? "No answer: the generator failed"
    : reply.declined
      ? "The image was not recognized: the closest match is below"
      : "No answer found in the evidence";
  const about = [reply.generator];
  if (failed) about.push(failed.message);
  else if (reply.answer !== null && reply.confidence !== null) about.push(`${Math.round(reply.confidence * 100)}% sure`);
  if (reply.context_truncated) about.push("read only the beginning of the section");
  byId("answer").replaceChildren(
    make("p", "asked", asked),
    reply.answer === null ? make("p", "reply none", missing) : make("p", "reply", reply.answer),
    make("p", "sure", about.join(", ")),
  );
}

function showEntity(entity) {
  byId("entity").hidden = !entity;
  if (!entity) return;
  byId("entity").replaceChildren(
    ...(entity.image ? [serviceImage(entity.image, { alt: `Main image of ${entity.title}` })] : []),
    make("div", "", [
      make("h3", "", entity.title),
      /^https?:\/\//.test(entity.url)
        ? make("a", "", entity.url.replace(/^https?:\/\//, ""), { href: entity.url, target: "_blank", rel: "noopener noreferrer" })
        : null,
    ]),
  );
}

function sectionCard(section) {
  const characters = [...section.text]; // the span counts Unicode characters, a string counts UTF-16 units
  const cut = (from, to) => characters.slice(from, to).join("");
  const text = make("div", "text", [], { tabIndex: 0, role: "region", ariaLabel: `Section ${section.section}` });
  if (section.span) {
    const [start, end] = section.span;
    text.append(cut(0, start), make("mark", "", cut(start, end)), cut(end));
  } else {
    text.append(section.text);
  }
  return make("article", "passage", [make("h3", "", section.section), text]);
}

function showEvidence(evidence) {
  byId("evidence").hidden = !evidence.length;
  if (!evidence.length) return;
  const [best, ...others] = evidence;
  const more = make("details", "", [
    make("summary", "", others.length === 1 ? "The next best section" : `The next ${others.length} best sections`),
    ...others.map(sectionCard),
  ]);
  byId("evidence").replaceChildren(sectionCard(best), ...(others.length ? [more] : []));
  const mark = byId("evidence").querySelector("mark");
  if (mark) {
    const text = mark.parentElement;
    text.scrollTop = mark.offsetTop - text.offsetTop - text.clientHeight / 2;
  }
}

function showCandidates(candidates, best) {
  const columns = ["sim_c", "sim_m", "fused"];
  const ranges = columns.map((column) => {
    const values = candidates.map((candidate) => candidate[column]).filter((value) => value !== null);
    return [Math.min(...values), Math.max(...values)];
  });
  const rows = candidates.map((candidate, rank) => {
    const scores = columns.map((column, i) => score(candidate[column], ...ranges[i]));
    const thumbnail = candidate.image
      ? serviceImage(candidate.image, { alt: "", loading: "lazy" })
      : make("span", "blank");
    const name = make("td", "", make("div", "name", [thumbnail, make("span", "", candidate.title)]));
    const row = make("tr", candidate.entity_id === best?.id ? "best" : "", [name, ...scores]);
    row.hidden = rank >= FIRST_CANDIDATES;
    return row;
  });
  byId("candidates").tBodies[0].replaceChildren(...rows);
  byId("more").hidden = rows.length <= FIRST_CANDIDATES;
  byId("more").textContent = `Show all ${rows.length}`;
}

byId("more").addEventListener("click", () => {
  for (const row of byId("candidates").tBodies[0].rows) row.hidden = false;
  byId("more").hidden = true;
});

function score(value, low, high) {
  if (value === null) return make("td", "score", "–");
  const bar = make("span", "bar");
  bar.style.width = `${high > low ? 6 + (94 * (value - low)) / (high - low) : 100}%`;
  return make("td", "score", [value.toFixed(3), bar]);
}

function showTimes(timings) {
  const steps = Object.entries(timings).filter(([name]) => name !== "total");
  const strip = make("div", "strip", [], { ariaHidden: "true" });
  const list = make("dl");
  steps.forEach(([name, ms], i) => {
    const shade = 1 - (0.75 * i) / Math.max(steps.length - 1, 1);
    const part = make("i");
    part.style.flexGrow = ms;
    part.style.opacity = shade;
    strip.append(part);
    const entry = make("div", "", [make("dt", "", name), make("dd", "", `${ms.toFixed(1)} ms`)]);
    entry.style.setProperty("--shade", shade);
    list.append(entry);
  });
  if (timings.total !== undefined) {
    list.append(make("div", "total", [make("dt", "", "total"), make("dd", "", `${timings.total.toFixed(1)} ms`)]));
  }
  byId("times").replaceChildren(strip, list);
}

// Examples

async function loadExamples() {
  const response = await request("examples");
  const examples = response.ok ? await response.json() : [];
  const items = examples.map((example) => {
    const thumbnail = serviceImage(example.image, { alt: "", loading: "lazy" });
    const button = make("button", "", thumbnail, { type: "button", title: example.question, ariaLabel: `Example: ${example.question}` });
    button.addEventListener("click", async () => {
      setImage(await (await request(example.image)).blob());
      question.value = example.question;
      submit();
    });
    return make("li", "", button);
  });
  byId("examples").querySelector("ul").replaceChildren(...items);
  byId("examples").hidden = !items.length;
}

key.value = sessionStorage.getItem("omgm-key") ?? "";
byId("key-line").hidden = !key.value;
loadExamples().catch(() => {}); // the page works without them

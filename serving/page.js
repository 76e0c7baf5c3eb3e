// The page: takes a question, about the photo if there is one, asks the service, shows the answers below each other, the newest first.

import { showEntity, showEvidence, showReply, showTopic, showWhy } from "./page-answer.js";
import { keepQuestion, keepTurn, keptTurns } from "./page-history.js";
import { bytesToSend, currentImages, imageAddresses, onImage, setImages, thumbnail } from "./page-image.js";
import { events, hasKey, isReachable, keepKey, make, problemOf, request, serviceImage } from "./page-service.js";
import { Trail } from "./page-trail.js";

const MODES = {
  retrieve: "Retrieval",
  auto: "Retrieval, then an agent",
  "mmsearch-plus": "Agent: MMSearch-Plus",
  omnisearch: "Agent: OmniSearch",
  mmsearch: "Agent: MMSearch",
  vsa: "Agent: Vision Search Assistant",
};

const byId = (id) => document.getElementById(id);
const [form, question, key, mode, history] = ["form", "question", "key", "mode", "history"].map(byId);
const coarse = matchMedia("(pointer: coarse)").matches; // a finger, so the keyboard is on the screen
let turns = 0;
let lastAsked = "";
let before = []; // the questions since there is this photo, or none
let whyOpen = false; // as the user left it at the last answer
const filter = {}; // of the page's address: ?filter=category=bird
for (const pair of new URLSearchParams(location.search).getAll("filter")) {
  const [name, ...value] = pair.split("=");
  (filter[name] ??= []).push(value.join("="));
  question.placeholder += ` (${pair})`;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});

question.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
});

question.addEventListener("focus", () => {
  if (question.value.trim() === lastAsked) question.select(); // the next question replaces it
});

onImage((message) => {
  if (!message) before = []; // another photo: what is asked next follows nothing
  showError(message);
});
keepQuestion(question);

function showError(message) {
  byId("error").textContent = message;
  byId("error").hidden = !message;
}

function submit() {
  const asked = question.value.trim();
  if (!asked) {
    question.focus();
    return showError("Type a question first.");
  }
  showError("");
  lastAsked = asked;
  if (coarse) question.blur(); // the keyboard would cover the answer
  else question.select();
  const agent = mode.value && mode.value !== "retrieve";
  const follows = before.length && !agent ? { before: [before[0], ...before.slice(1).slice(-19)] } : {};
  ask(asked, agent ? { mode: mode.value } : follows);
}

/** Asks again, about the entity that the user says the photo shows; what is asked next follows that. */
function choose(asked, { entity_id: entity, title }) {
  setImages([]);
  before = [title];
  ask(asked, { entity });
}

async function ask(asked, about) {
  const limited = Object.keys(filter).length ? { filter } : {};
  const options = { stream: true, ...limited, ...about };
  before.push(asked);
  const turn = newTurn(asked, currentImages(), options, imageAddresses());
  history.prepend(turn.element);
  if (turn.element.getBoundingClientRect().top > innerHeight * 0.5 || turn.element.getBoundingClientRect().top < 0) {
    turn.element.scrollIntoView({ behavior: "smooth" });
  }
  byId("idle").hidden = true;
  say("Searching…");
  try {
    await answer(turn, asked, options);
  } catch (error) {
    if (error.name === "AbortError") fail(turn, "Stopped.");
    else if (["NotReadableError", "NotFoundError"].includes(error.name)) {
      fail(turn, "The photo can no longer be read. Choose it again.");
    } else if (!(await isReachable())) fail(turn, "The service cannot be reached. Is it still running?");
    else if (turn.begun) fail(turn, "The connection broke before the answer was complete. Ask again.");
    else fail(turn, "The connection broke while the photo was sent: it may be too large for a proxy in between.");
  } finally {
    turn.element.setAttribute("aria-busy", "false");
    turn.stop.remove();
  }
}

async function answer(turn, asked, options) {
  const body = new FormData();
  for (const image of turn.images) body.append("image", new Blob([await bytesToSend(image)]), image.name ?? "image");
  body.append("question", asked);
  body.append("options", JSON.stringify(options));
  const response = await request("answer", { method: "POST", body, signal: turn.abort.signal });
  if (response.status === 401) key.focus();
  if (response.status === 401 && !hasKey()) return fail(turn, "This service needs a key. Enter it above the question.");
  const problem = await problemOf(response);
  if (problem) return fail(turn, problem);
  turn.begun = true;
  const show = shower(turn, asked, options);
  const kept = [];
  for await (const [name, values] of events(response)) {
    if (name !== "answer") kept.push([name, values]);
    show(name, values);
  }
  if (!turn.ended) return fail(turn, "The service ended before its answer did.");
  const photos = await Promise.all(turn.images.map(thumbnail));
  keepTurn({ asked, options, names: turn.images.map(({ name }) => name), photos, events: kept });
}

/** Returns a function that shows the events of an answer. */
function shower(turn, asked, options) {
  let retrieved = {};
  let text = "";
  const trail = options.mode ? new Trail(turn) : null;
  return (name, values) => {
    if (name === "retrieval") {
      retrieved = values;
      showEntity(turn, values.entity);
      showEvidence(turn, values);
      showTopic(turn, asked, options, values);
      showWhy(turn, values);
    } else if (name === "answer") {
      text += values.text;
      turn.answer.replaceChildren(make("p", "reply", text));
    } else if (name === "error") {
      turn.ended = true;
      fail(turn, values.error.message);
    } else if (name === "done") {
      turn.ended = true;
      finish(turn, asked, { ...retrieved, ...values }, trail);
    } else {
      const doing = trail?.step(name, values);
      if (doing) say(doing);
    }
  };
}

/** Shows the answers from before a reload. */
function restore() {
  for (const { asked, options, names = [], photos = [], events: shown } of keptTurns().reverse()) {
    const turn = newTurn(asked, names.map((name) => ({ name })), options, photos);
    history.prepend(turn.element);
    const chosen = options.entity ? [shown.find(([name]) => name === "retrieval")?.[1].entity.title] : before;
    before = names.length ? [] : [...chosen, asked]; // the photos are gone after a reload
    const show = shower(turn, asked, options);
    for (const [event, values] of shown) show(event, values);
    turn.element.setAttribute("aria-busy", "false");
    turn.stop.remove();
    byId("idle").hidden = true;
  }
  say("");
}

function finish(turn, asked, reply, trail) {
  showReply(turn, reply, (entity) => choose(asked, entity));
  if (trail) {
    trail.finish(reply.trail);
  } else {
    showEntity(turn, reply.entity); // none if the answer was only read on the image
    showEvidence(turn, reply); // now with the span of the answer
    showWhy(turn, reply);
  }
  showIndex(reply.index);
  say(`Answer: ${turn.answer.querySelector(".reply").textContent}`);
}

function showIndex({ name, entities }) {
  const size = entities === null ? "" : `: ${entities.toLocaleString()} ${entities === 1 ? "entity" : "entities"}`;
  byId("about").textContent = `${name}${size}.`;
}

/** Tells users of screen readers what happens. */
function say(text) {
  byId("status").textContent = text;
}

function fail(turn, message) {
  const sentence = message[0].toUpperCase() + message.slice(1) + (/[.?!…]$/.test(message) ? "" : ".");
  turn.answer.replaceChildren(make("p", "error", sentence, { role: "alert" }));
  say("");
}

/** Returns the parts of a new entry of the history. */
function newTurn(asked, images, options, addresses) {
  const id = `turn-${++turns}`;
  const abort = new AbortController();
  const stop = make("button", "quiet", "Stop", { type: "button", ariaLabel: `Stop answering: ${asked}` });
  stop.addEventListener("click", () => abort.abort());
  const photos = addresses.map((src, at) => (src ? make("img", "", [], { src, alt: "", number: at + 1 }) : null));
  const heading = make("h2", "", asked, { id: `${id}-question` });
  const part = (name, label) => make("div", name, [], { hidden: true, role: "group", ariaLabel: label });
  const why = make("details", "why", [make("summary", "", "Why this answer"), make("div", "steps")], { hidden: true, open: whyOpen });
  why.addEventListener("toggle", () => (whyOpen = why.open));
  const turn = {
    images,
    abort,
    stop,
    topic: make("p", "topic sure", "", { hidden: true }),
    answer: make("div", "answer", make("p", "reply none", "Searching…")),
    entity: part("entity", "Entity"),
    evidence: part("evidence", "Evidence"),
    trail: part("trail", "Steps of the agent"),
    why,
  };
  const parts = [make("header", "asked", [...photos, heading, stop]), turn.topic, turn.answer, turn.entity, turn.evidence, turn.trail, why];
  turn.element = make("article", options.mode ? "turn trailed" : "turn", [...parts, curlOf(asked, images, options)], { id });
  turn.element.setAttribute("aria-labelledby", heading.id);
  turn.element.setAttribute("aria-busy", "true");
  return turn;
}

/** Returns the request as a command for a shell. */
function curlOf(asked, images, options) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const named = ({ name }) => (name ?? "photo.jpg").replace(/["\\]/g, "\\$&");
  const command = [
    `curl -N ${new URL("answer", location.href)}`,
    ...(hasKey() ? ['-H "Authorization: Bearer $OMGM_KEY"'] : []),
    ...images.map((image) => `-F ${quoted(`image=@"${named(image)}"`)}`),
    `--form-string ${quoted(`question=${asked}`)}`,
    `--form-string ${quoted(`options=${JSON.stringify(options)}`)}`,
  ].join(" \\\n  ");
  const copy = make("button", "quiet", "Copy", { type: "button" });
  copy.addEventListener("click", async () => {
    await navigator.clipboard?.writeText(command);
    copy.textContent = navigator.clipboard ? "Copied" : "Select it above";
  });
  return make("details", "curl", [
    make("summary", "", "This request with curl"),
    make("pre", "", make("code", "", command), { tabIndex: 0, ariaLabel: "Command" }),
    copy,
  ]);
}

// What the service offers

async function loadModes() {
  const response = await request("info");
  const { modes = [], index } = response.ok ? await response.json() : {};
  const chosen = mode.value;
  mode.replaceChildren(...modes.map((name) => make("option", "", MODES[name] ?? name, { value: name })));
  if (modes.includes(chosen)) mode.value = chosen;
  byId("mode-line").hidden = modes.length < 2;
  if (index) showIndex(index);
}

async function loadExamples() {
  const response = await request("examples");
  const examples = response.ok ? await response.json() : [];
  const items = examples.map((example) => {
    const thumbnail = serviceImage(example.image, { alt: "", loading: "lazy" });
    const button = make("button", "", thumbnail, { type: "button", title: example.question, ariaLabel: `Example: ${example.question}` });
    button.addEventListener("click", async () => {
      setImages([await (await request(example.image)).blob()]);
      question.value = example.question;
      submit();
    });
    return make("li", "", button);
  });
  byId("examples").querySelector("ul").replaceChildren(...items);
  byId("examples").hidden = !items.length;
}

function load() {
  loadModes().catch(() => {}); // the page works without them
  loadExamples().catch(() => {});
}

keepKey(load);
restore();
load();

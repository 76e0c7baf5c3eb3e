// The trail of a search agent, shown while it searches: rounds, and in them calls with queries, crops and results.

import { duration, link, passage } from "./page-answer.js";
import { make } from "./page-service.js";

const WORDS = {
  ask_index: "Asks the index",
  image_search: "Searches by image",
  find_images: "Searches images",
  text_search: "Searches the encyclopedia",
  web_search: "Searches the web",
  open_page: "Opens a page",
  zoom_in: "Looks closer",
  rotate: "Rotates the image",
};

/** Shows the steps of one run in the section `trail` of a turn. */
export class Trail {
  constructor(turn) {
    this.turn = turn;
    this.list = make("ol", "rounds");
    this.rounds = new Map();
    turn.trail.replaceChildren(make("h3", "", "Steps"), this.list);
    turn.trail.hidden = false;
  }

  /** Shows a step as the service tells it; returns a few words about it. */
  step(name, values) {
    const round = this.round(values.round);
    if (name === "request") round.add(values);
    if (name === "round") round.decide(values);
    if (name === "call") round.call(values.position, values);
    return name === "round" ? values.calls.map((call) => words(call)).join(", ") : "";
  }

  /** Completes what was cut off, and shows the sources that the answer cites. */
  finish(trail) {
    for (const values of trail.rounds) {
      const round = this.round(values.number);
      if (!round.decided) round.decide(values);
      round.spend(values.requests, values.ms);
      values.calls.forEach((call, position) => {
        const found = trail.sources.filter((source) => call.sources.includes(source.number));
        if (!round.known.has(position)) round.call(position, { ...call, found, thumbnails: {} });
      });
    }
    const cited = new Set(trail.claims.flatMap((claim) => claim.sources));
    const cards = trail.sources.filter((source) => cited.has(source.number)).map((source) => {
      const card = passage(`[${source.number}] ${heading(source)}`, { text: source.text });
      card.id = `${this.turn.element.id}-${source.number}`;
      card.append(link(source.url) ?? "");
      return card;
    });
    this.turn.evidence.hidden = !cards.length;
    this.turn.evidence.replaceChildren(...cards);
  }

  round(number) {
    if (!this.rounds.has(number)) {
      const round = new Round(number);
      this.rounds.set(number, round);
      this.list.append(round.element);
    }
    return this.rounds.get(number);
  }
}

class Round {
  constructor(number) {
    this.spent = make("span", "spent", "thinking…");
    this.thought = make("p", "thought", "", { hidden: true });
    this.problem = make("p", "problem", "", { hidden: true });
    this.calls = make("ul", "calls");
    this.requests = [];
    this.known = new Set();
    this.decided = false;
    const head = make("h4", "", [`Round ${number}`, this.spent]);
    this.element = make("li", "round", [head, this.thought, this.problem, this.calls]);
  }

  add(request) {
    this.requests.push(request);
    this.spend(this.requests, this.requests.reduce((sum, one) => sum + one.ms, 0));
  }

  spend(requests, ms) {
    const tokens = requests.reduce((sum, one) => sum + one.prompt_tokens + one.completion_tokens, 0);
    this.spent.textContent = `${tokens ? `${tokens.toLocaleString()} tokens, ` : ""}${duration(ms)}`;
  }

  decide({ thought, problem, calls }) {
    this.decided = true;
    if (!this.requests.length) this.spent.textContent = "";
    this.thought.textContent = thought || (calls.length || problem ? "" : "Answers.");
    this.thought.hidden = !this.thought.textContent;
    this.problem.textContent = `The model's reply could not be read: ${problem}`;
    this.problem.hidden = !problem;
    this.calls.replaceChildren(...calls.map((call) => make("li", "call pending", [title(call), make("p", "none", "…")])));
  }

  call(position, values) {
    this.known.add(position);
    const crops = Object.entries(values.thumbnails).map(([name, src]) => make("img", "", [], { src, alt: cropName(name) }));
    const sources = values.found.map((source) =>
      make("details", "", [make("summary", "", [make("b", "", `[${source.number}]`), ` ${heading(source)}`]), make("p", "", source.text), link(source.url)]),
    );
    const about = [duration(values.ms), values.cached ? "from the cache" : "", values.cost ? `costs ${values.cost}` : ""];
    const result = make("li", "call", [
      title(values, about.filter(Boolean).join(", ")),
      crops.length ? make("div", "crops", crops) : null,
      values.error ? make("p", "problem", values.error) : null,
      values.text ? make("p", "text", values.text) : null,
      ...sources,
      !values.error && !values.text && !sources.length && !crops.length ? make("p", "none", "Nothing found") : null,
    ]);
    const pending = this.calls.children[position];
    if (pending) pending.replaceWith(result);
    else this.calls.append(result);
  }
}

const words = ({ tool }) => WORDS[tool] ?? tool;
const heading = ({ title, section }) => (section ? `${title}, ${section}` : title);
const cropName = (name) => (name === "part" ? "The part of the image that is searched" : `New image ${name}`);

function title(call, about = "") {
  const queries = wanted(call.arguments);
  return make("p", "title", [make("strong", "", words(call), { title: call.tool }), ...queries, make("span", "spent", about)]);
}

/** Returns what a call asks for: texts as quotes, other values with their names. */
function wanted(values) {
  if (typeof values === "string") return [make("q", "", values)];
  return Object.entries(values).flatMap(([name, value]) => {
    const list = Array.isArray(value) ? value : [value];
    if (list.every((one) => typeof one === "string")) {
      return list.filter((text) => text && text !== "image").map((text) => make("q", "", text));
    }
    const shown = list.map((one) => (typeof one === "number" ? Math.round(one) : JSON.stringify(one)));
    return value === null ? [] : [make("span", "", `${name} ${shown.join(", ")}`)];
  });
}

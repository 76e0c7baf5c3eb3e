// One answer by retrieval: the reply, the entity, its evidence, and why: the three steps with their scores.

import { make, serviceImage } from "./page-service.js";

const CHOICES = 8;

/** Shows the reply of the service, or what there is of it while it is being written. */
export function showReply(turn, reply, choose) {
  const failed = reply.generator_error;
  const quote = reply.quote ?? [];
  const isUnknown = !failed && reply.declined && !reply.quote && reply.searched === null && reply.candidates.length;
  const missing = failed
    ? "No answer: the generator failed"
    : isUnknown
      ? "The image was not recognized: the closest match is below. Go closer until the thing fills the frame, or name it in the question."
      : reply.trail?.stopped
        ? `No answer: stopped by its limit of ${reply.trail.stopped}`
        : `No answer: ${reply.reason ?? "nothing found fits"}`;
  const about = quote.length ? ["read on your photo"] : reply.declined ? [] : [reply.generator];
  if (failed) about.push(failed.message);
  else if (reply.answer !== null && reply.confidence !== null) about.push(`${Math.round(reply.confidence * 100)}% sure`);
  if (reply.grounded === false) about.push("not word for word in the evidence");
  if (reply.crop) about.push("recognized in a part of the image");
  if (reply.turned) about.push(`recognized when turned by ${reply.turned}°`);
  reply.photographs?.forEach(({ entity_title, recognized }, at) => {
    const sure = recognized === null ? "" : ` (${Math.round(recognized * 100)}%)`;
    about.push(`image ${at + 1}: ${entity_title ?? "nothing found"}${sure}`);
  });
  const lines = reply.text ?? [];
  if (quote.length && reply.by_text) about.push("recognized by its label");
  else if (lines.length && !quote.length) about.push(`${reply.by_text ? "recognized by its label" : "read on the image"}: ${lines.map((line) => line.text).join(" · ")}`);
  if (reply.context_truncated) about.push("read only the beginning of the section");
  if (reply.trail) about.push(`${reply.trail.spent.tokens.toLocaleString()} tokens`, duration(reply.timings_ms.total));
  turn.answer.replaceChildren(
    reply.answer === null ? make("p", "reply none", missing) : make("p", quote.length ? "reply quoted" : "reply", cited(turn, reply)),
    ...(isUnknown ? [choices(reply.candidates, choose)] : []),
    ...(about.length ? [make("p", "sure", about.join(", "))] : []),
    ...(quote.length || reply.by_text ? marked(turn, quote.length ? quote : lines) : []),
  );
}

/** Returns buttons for the entities that an unrecognized image may show; `choose` asks about one of them. */
function choices(candidates, choose) {
  const buttons = candidates.slice(0, CHOICES).map((candidate) => {
    const button = make("button", "quiet", [thumbnail(candidate), make("span", "", candidate.title)], { type: "button" });
    button.addEventListener("click", () => choose(candidate));
    return button;
  });
  return make("div", "choices", ["Is it one of these?", ...buttons], { role: "group", ariaLabel: "Is it one of these?" });
}

/** Returns the photos with their lines of text marked. */
function marked(turn, lines) {
  const photos = [...turn.element.querySelectorAll(".asked img")];
  return photos.flatMap(({ src, number }) => {
    const own = lines.filter(({ photograph = 1 }) => photograph === number);
    const boxes = own.map(({ text, box: [left, top, right, bottom] }) => {
      const box = make("i", "", [], { title: text });
      const place = { left, top, width: right - left, height: bottom - top };
      for (const [name, share] of Object.entries(place)) box.style[name] = `${100 * share}%`;
      return box;
    });
    return own.length ? [make("div", "read", [make("img", "", [], { src, alt: "Your photo with its text marked" }), ...boxes])] : [];
  });
}

/** Returns the answer's text; what an agent cites is linked. */
function cited(turn, reply) {
  const claims = reply.trail?.claims ?? [];
  if (!claims.some((claim) => claim.sources.length)) return reply.answer;
  return claims.flatMap((claim) => [
    claim.text,
    ...claim.sources.map((number) =>
      make("sup", "", make("a", "", `[${number}]`, { href: `#${turn.element.id}-${number}`, ariaLabel: `Source ${number}` })),
    ),
    " ",
  ]);
}

/** Shows what a question is about that follows others, names a thing or is about a chosen one, and how it is completed. */
export function showTopic(turn, asked, { before, entity: chosen }, { entity, searched }) {
  const photo = turn.images.length;
  const named = photo && searched !== null;
  if (!entity || !(before || named || chosen)) return;
  const about = `About ${named ? `${entity.title}, not the photo` : photo ? "the photo" : entity.title}`;
  turn.topic.textContent = searched && searched !== asked ? `${about}: ${searched}` : about;
  turn.topic.hidden = false;
  if (named) turn.element.querySelectorAll(".asked img").forEach((image) => image.remove());
}

export function showEntity(turn, entity) {
  turn.entity.hidden = !entity;
  if (!entity) return;
  turn.entity.replaceChildren(
    ...(entity.image ? [serviceImage(entity.image, { alt: `Main image of ${entity.title}` })] : []),
    make("div", "", [make("h3", "", entity.title), link(entity.url)]),
  );
}

/** Returns a link to a web page, null for anything else. */
export function link(url) {
  if (!/^https?:\/\//.test(url)) return null;
  const properties = { href: url, target: "_blank", rel: "noopener noreferrer" };
  return make("a", "", url.replace(/^https?:\/\//, ""), properties);
}

/** Shows the best section and the next ones, and the sections about the other things if photos show different things. */
export function showEvidence(turn, { evidence = [], photographs = [], passages = [] }) {
  turn.evidence.hidden = !evidence.length;
  if (!evidence.length) return;
  const [best, ...others] = evidence;
  const more = make("details", "", [
    make("summary", "", others.length === 1 ? "The next best section" : `The next ${others.length} best sections`),
    ...others.map((section) => passage(section.section, section)),
  ]);
  const things = photographs.flatMap(({ sections }) => sections.slice(0, 1).map((section) => section.evidence));
  const also = (passages.length ? passages : things).filter(({ entity_id }) => entity_id !== best.entity.id);
  turn.evidence.replaceChildren(
    passage(also.length ? `${best.entity.title}: ${best.section}` : best.section, best),
    ...(others.length ? [more] : []),
    ...also.map((section) => passage(`${section.entity_title}: ${section.section_title}`, section)),
  );
  const mark = turn.evidence.querySelector("mark");
  if (mark) {
    const text = mark.parentElement;
    text.scrollTop = mark.offsetTop - text.offsetTop - text.clientHeight / 2;
  }
}

/** Returns a text with a heading, its span marked, and its images below. */
export function passage(heading, { text, span = null, images = [] }) {
  const characters = [...text]; // the span counts Unicode characters, a string counts UTF-16 units
  const cut = (from, to) => characters.slice(from, to).join("");
  const body = make("div", "text", [], { dir: "auto", tabIndex: 0, role: "group", ariaLabel: heading });
  if (span) body.append(cut(0, span[0]), make("mark", "", cut(...span), { dir: "" }), cut(span[1]));
  else body.append(text);
  const figures = images.map((image, i) => figure(image, `Picture ${i + 1}`));
  const shown = figures.length ? [make("div", "figures", figures, { tabIndex: 0, role: "group", ariaLabel: "Pictures" })] : [];
  return make("article", "passage", [make("h3", "", heading), body, ...shown]);
}

/** Returns a numbered image with its caption; of one that the service does not have, where it is. */
function figure({ url, caption, image }, number) {
  const title = caption || (image ? "" : url.split("/").pop());
  const about = make("figcaption", "", [title ? `${number}: ${title}` : number, ...(image ? [] : [" ", link(url)])]);
  return make("figure", "", [...(image ? [serviceImage(image, { alt: title || number, loading: "lazy" })] : []), about]);
}

// Why

/** Shows the three steps: entities near to the image, the same ranked again with the question, sections. */
export function showWhy(turn, reply) {
  turn.why.hidden = !reply.candidates.length;
  if (!reply.candidates.length) return;
  const steps = reply.candidates.every(({ sim_c: byImage }) => byImage === null)
    ? [step("1", "Which entity is it about?", "The question is compared with all sections: its words, names in it and its meaning.", ranked(reply))]
    : [
        step("1", "Which entities look like it?", "The image is compared with every entity of the index: sim_c.", nearest(reply)),
        step(
          "2",
          "Which of them fits image and question?",
          "Image and question are compared with each entity's sections and main image: sim_m. Both together rank the entities.",
          ranked(reply),
        ),
      ];
  turn.why.querySelector(".steps").replaceChildren(
    ...steps,
    step(
      "3",
      "Which section answers?",
      "The sections of the best entity, by sim_m and by how well their text fits the question: sim_t.",
      sections(reply),
    ),
    times(reply.timings_ms),
  );
}

function step(number, title, text, ...content) {
  const heading = make("h3", "", [make("span", "number", number, { ariaHidden: "true" }), title]);
  return make("section", "step", [heading, make("p", "hint", text), ...content]);
}

function nearest({ candidates }) {
  const byImage = candidates.filter((candidate) => candidate.sim_c !== null).sort((a, b) => b.sim_c - a.sim_c);
  const figures = byImage.map((candidate) =>
    make("li", "", [thumbnail(candidate), make("span", "", candidate.title), make("span", "value", fixed(candidate.sim_c))]),
  );
  return make("ol", "nearest", figures, { tabIndex: 0, ariaLabel: "Nearest entities" });
}

function ranked({ candidates, entity }) {
  return table(
    ["Entity", "sim_c", "sim_m", "fused"],
    candidates.map((candidate) => ({
      best: candidate.entity_id === entity?.id,
      name: make("div", "name", [thumbnail(candidate), make("span", "", candidate.title)]),
      scores: [candidate.sim_c, candidate.sim_m, candidate.fused],
    })),
  );
}

function sections({ evidence }) {
  return table(
    ["Section", "sim_m", "sim_t", "score"],
    evidence.map(({ section, scores }, rank) => ({
      best: rank === 0,
      name: section,
      scores: [scores.sim_m, scores.sim_t, scores.score],
    })),
  );
}

function thumbnail({ image }) {
  return image ? serviceImage(image, { alt: "", loading: "lazy" }) : make("span", "blank");
}

function table(heads, rows) {
  const ranges = heads.slice(1).map((_, column) => {
    const values = rows.map((row) => row.scores[column]).filter((value) => value !== null);
    return [Math.min(...values), Math.max(...values)];
  });
  const head = heads.map((text, column) => make("th", column ? "score" : "", text, { scope: "col" }));
  const body = rows.map(({ best, name, scores }) => {
    const cells = scores.map((value, column) => score(value, ...ranges[column]));
    return make("tr", best ? "best" : "", [make("td", "", name), ...cells]);
  });
  return make("table", "", [make("thead", "", make("tr", "", head)), make("tbody", "", body)]);
}

function score(value, low, high) {
  if (value === null) return make("td", "score", "–");
  const bar = make("span", "bar");
  bar.style.width = `${high > low ? 6 + (94 * (value - low)) / (high - low) : 100}%`;
  return make("td", "score", [fixed(value), bar]);
}

const fixed = (value) => value.toFixed(3);

/** Returns milliseconds for people. */
export const duration = (ms) => (ms < 1000 ? `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);

function times(timings) {
  const steps = Object.entries(timings).filter(([name]) => name !== "total");
  const strip = make("div", "strip", [], { ariaHidden: "true" });
  const list = make("dl");
  steps.forEach(([name, ms], i) => {
    const shade = 1 - (0.75 * i) / Math.max(steps.length - 1, 1);
    const part = make("i");
    part.style.flexGrow = ms;
    part.style.opacity = shade;
    strip.append(part);
    const entry = make("div", "", [make("dt", "", name), make("dd", "", duration(ms))]);
    entry.style.setProperty("--shade", shade);
    list.append(entry);
  });
  list.append(make("div", "total", [make("dt", "", "total"), make("dd", "", duration(timings.total ?? 0))]));
  return make("section", "times", [make("h3", "", "Time"), strip, list]);
}

// What a reload keeps, until the tab is closed: the question and the answers.

const [TURNS, QUESTION] = ["omgm-turns", "omgm-question"];
const MOST = 20;

/** Returns the kept turns, the newest first. */
export function keptTurns() {
  try {
    return JSON.parse(sessionStorage.getItem(TURNS) ?? "[]");
  } catch {
    return []; // written by another version, or the browser keeps nothing
  }
}

/** Keeps a turn: what was asked, a small image of the photo, and the events of the answer. */
export function keepTurn(turn) {
  const turns = [turn, ...keptTurns()].slice(0, MOST);
  for (; turns.length; turns.pop()) {
    try {
      return sessionStorage.setItem(TURNS, JSON.stringify(turns));
    } catch {
      // too much for the browser's storage: without the oldest
    }
  }
}

/** Keeps what is typed into the field of the question, and fills it in after a reload. */
export function keepQuestion(field) {
  try {
    field.value ||= sessionStorage.getItem(QUESTION) ?? "";
    field.addEventListener("input", () => sessionStorage.setItem(QUESTION, field.value));
  } catch {
    // the browser keeps nothing
  }
}

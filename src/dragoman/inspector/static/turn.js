// A turn, step by step: run by the served model, or replayed from a pasted output. Steps are kept, so that they can be
// walked through in both directions.

import { $, ask, el, say, show } from "./dom.js";
import { asked } from "./asking.js";

let steps = [];
let at = 0;
let playing = null;
let running = null;

export function startTurn() {
  $("run").addEventListener("click", run);
  $("stop").addEventListener("click", () => running?.abort());
  $("replay").addEventListener("click", replay);
  $("step").addEventListener("input", () => go(Number($("step").value)));
  $("first").addEventListener("click", () => go(0));
  $("previous").addEventListener("click", () => go(at - 1));
  $("next").addEventListener("click", () => go(at + 1));
  $("last").addEventListener("click", () => go(steps.length - 1));
  $("play").addEventListener("click", play);
  $("turn").addEventListener("keydown", (event) => {
    if (event.target.closest("textarea, select, input:not([type=range]), summary") || $("watch").hidden) return;
    const range = event.target === $("step");  // it moves by its own keys
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: steps.length - 1 }[event.key];
    if (to !== undefined && !range) go(to);
    else if (event.key === " " && event.target.tagName !== "BUTTON") play();
    else return;
    event.preventDefault();
  });
}

async function run() {
  running?.abort();
  const mine = (running = new AbortController());
  begin();
  try {
    const body = asked();
    const number = (id) => ($(id).value === "" ? undefined : Number($(id).value));
    body.request = { max_tokens: number("max-tokens"), temperature: number("temperature"), ...body.request };
    $("stop").hidden = false;
    if (document.activeElement === $("run")) $("stop").focus();  // a disabled button would lose the keyboard's place
    $("run").disabled = true;
    const answer = await ask("/inspector/run", body, mine.signal);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      const lines = (rest + (value ?? "")).split("\n");
      rest = lines.pop();
      lines.filter(Boolean).map(JSON.parse).forEach(came);
      if (done) break;
    }
  } catch (error) {
    if (error.name !== "AbortError") say(error.message, true);
  } finally {
    if (mine === running) running = null;
    $("run").disabled = false;
    if (document.activeElement === $("stop")) $($("watch").hidden ? "run" : "step").focus();
    $("stop").hidden = true;
  }
}

// One line of a run: what is asked, a step, or what went wrong.
function came(line) {
  if (line.error) return say(line.error.message, true);
  if (line.prompt) {
    const how = line.enforced ? `the grammar is enforced as ${line.enforced}` : "nothing is enforced";
    return note(`${line.prompt.tokens?.length ?? "?"} tokens of prompt; ${how}${line.unwatched ? `; no masks: ${line.unwatched}` : ""}`);
  }
  if (line.unwatched) note(`${$("run-note").textContent}; masks are not known to the end: ${line.unwatched}`);
  const follow = at >= steps.length - 1;
  steps.push(line);
  if (follow) go(steps.length - 1);
  else limits();
}

function note(text) {
  $("run-note").textContent = text;
  $("run-note").hidden = !text;
}

async function replay() {
  begin();
  try {
    const body = { ...asked(), output: $("output").value, chunk: Number($("chunk").value), cut_off: $("cut-off").checked };
    steps = (await (await ask("/inspector/replay", body)).json()).steps;
    say("");
    go(0);
  } catch (error) {
    say(error.message, true);
  }
}

function begin() {
  pause();
  say("");
  note("");
  steps = [];
  at = 0;
  $("watch").hidden = true;
}

function play() {
  if (playing) return pause();
  if (at >= steps.length - 1) go(0);
  playing = setInterval(() => (at < steps.length - 1 ? go(at + 1) : pause()), 120);
  $("play").textContent = "❚❚";
  $("play").setAttribute("aria-label", "Pause");
}

function pause() {
  clearInterval(playing);
  playing = null;
  $("play").textContent = "▶";
  $("play").setAttribute("aria-label", "Play");
}

function limits() {
  $("step").max = String(Math.max(steps.length - 1, 0));
  $("step-number").textContent = `step ${at + 1} of ${steps.length}`;
  for (const id of ["first", "previous"]) $(id).disabled = at === 0;
  for (const id of ["next", "last"]) $(id).disabled = at >= steps.length - 1;
}

function go(to) {
  if (!steps.length) return;
  at = Math.min(Math.max(to, 0), steps.length - 1);
  $("watch").hidden = false;
  limits();
  $("step").value = String(at);
  written();
  facts();
  message();
}

// The text up to this step: what is settled, what is withheld, and the newest piece underlined.
function written() {
  const before = steps.slice(0, at).map((step) => step.chunk ?? "").join("");
  const now = steps[at].chunk ?? "";
  const { withheld } = steps[at].reader;
  const whole = before + now;
  const disputed = whole.endsWith(withheld) ? whole.length - withheld.length : whole.length;
  const marks = [0, before.length, disputed, whole.length].sort((a, b) => a - b);
  const spans = marks.slice(1).map((end, index) => {
    const start = marks[index];
    if (start === end) return null;
    const look = [start >= disputed && "withheld", start >= before.length && "now"].filter(Boolean).join(" ");
    return el("span", { class: look || null }, whole.slice(start, end));
  });
  show("written", ...spans);
  $("written").scrollTop = $("written").scrollHeight;
  $("settled-note").textContent = withheld ? `${withheld.length} characters withheld: threads dispute them` : "all of it is settled";
}

function facts() {
  const step = steps[at];
  const { reader } = step;
  const pairs = [
    [step.finish ? "end" : "piece", step.finish ?? quoted(step.chunk)],
    ["live threads", reader.threads],
    ["settled", `${reader.settled} of ${reader.position} bytes`],
    ["open regions", reader.path.join(" › ") || "none"],
    ["deltas", step.deltas.length ? step.deltas.map((delta) => JSON.stringify(delta)).join("\n") : "none"],
  ];
  show("step-facts", el("dl", {}, ...pairs.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, el("span", { class: "mono" }, String(value)))])));
  show("step-tokens", ...(step.tokens ?? []).map(token));
}

function token(each) {
  const known = each.count !== null;
  const share = known ? each.count / each.of : 0;
  const meter = known && el("div", { class: "meter", role: "img", "aria-label": `${each.count} of ${each.of} tokens allowed` }, el("i"));
  if (meter) meter.firstChild.style.width = `${Math.max(share * 100, 0.4)}%`;
  const likeliest = each.likeliest.map((other) => {
    const bar = el("div", { class: other.allowed === false ? "meter off" : "meter" }, el("i"));
    bar.firstChild.style.width = `${other.probability * 100}%`;
    return el("tr", {}, el("td", { class: "mono" }, quoted(other.text)), el("td", {}, bar),
      el("td", {}, percent(other.probability)), el("td", { class: "refuted" }, other.allowed === false ? "masked" : ""));
  });
  return el("div", { class: "one-token" },
    el("div", {}, el("span", { class: "mono" }, quoted(each.text)), el("span", { class: "quiet" }, each.id === null ? "" : ` token ${each.id}`),
      each.allowed === false ? el("span", { class: "refuted" }, " not allowed by the mask") : null),
    known ? el("div", { class: "quiet" }, `the mask allows ${each.count.toLocaleString("en")} of ${each.of.toLocaleString("en")} tokens`) : null,
    meter || null,
    likeliest.length ? el("table", { "aria-label": "The likeliest tokens" }, el("tbody", {}, ...likeliest)) : null);
}

// What the deltas up to this step add up to; what this step added is marked.
function message() {
  const parts = { reasoning_content: [], content: [] };
  const calls = [];
  steps.slice(0, at + 1).forEach((step, index) => step.deltas.forEach((delta) => {
    const fresh = index === at;
    for (const name of Object.keys(parts)) if (delta[name]) parts[name].push([delta[name], fresh]);
    for (const call of delta.tool_calls ?? []) {
      calls[call.index] ??= { name: "", pieces: [] };
      if (call.function.name) calls[call.index].name = call.function.name;
      if (call.function.arguments) calls[call.index].pieces.push([call.function.arguments, fresh]);
    }
  }));
  const box = (title, pieces, look = "") => el("div", { class: look || null }, el("h4", {}, title), ...joined(pieces));
  const result = steps[at].result;
  show(
    "message",
    parts.reasoning_content.length ? box("reasoning", parts.reasoning_content, "reasoning") : null,
    parts.content.length ? box("content", parts.content) : null,
    ...calls.map((call) => box(`call ${call.name}`, call.pieces, "mono")),
    result ? el("p", { class: "quiet" }, `finish_reason ${result.finish_reason}`) : null,
    ...(result?.problems ?? []).map((problem) => el("div", { class: "problem" }, `${problem.code}: ${problem.message} (byte ${problem.position})`)),
    !parts.content.length && !parts.reasoning_content.length && !calls.length ? el("p", { class: "quiet" }, "nothing yet") : null,
  );
}

function joined(pieces) {
  const old = pieces.filter(([, fresh]) => !fresh).map(([text]) => text).join("");
  const added = pieces.filter(([, fresh]) => fresh).map(([text]) => text).join("");
  return [old, added ? el("span", { class: "fresh" }, added) : null];
}

const quoted = (text) => JSON.stringify(text);
const percent = (share) => (share < 0.001 ? "<0.1 %" : `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`);

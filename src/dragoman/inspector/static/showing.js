// Prompt, template and grammar as the server's JSON tells them. Nothing is computed here but how it looks.

import { $, ask, el, show } from "./dom.js";
import { asked, template } from "./asking.js";

export async function showPrompt(signal) {
  const shown = await (await ask("/inspector/prompt", asked(), signal)).json();
  const tokens = shown.tokens;
  const count = tokens ? `${tokens.length} tokens, ` : "";
  $("prompt-size").textContent = `${count}${[...shown.prompt].length} characters`;
  $("as-tokens").disabled = !tokens;
  const chips = tokens && $("as-tokens").checked;
  $("control-legend").hidden = !chips;
  $("prompt-text").classList.toggle("tokens", Boolean(chips));
  show("prompt-text", ...(chips ? tokens.map(chip) : provenance(shown.parts)));
}

export function provenance(parts) {
  return parts.map((part) => (part.input ? el("mark", { class: "input" }, part.text) : part.text));
}

function chip(token) {
  const look = token.control ? "token control" : token.input ? "token input" : "token";
  const name = token.input ? "mark" : "span";
  const made = el(name, { class: look, title: `${token.id}${token.control ? ", a control token" : ""}` });
  for (const [at, piece] of token.text.split("\n").entries()) {
    if (at) made.append(el("span", { class: "newline" }, "↵"), "\n");
    made.append(piece);
  }
  return made;
}

export async function showTemplate(signal) {
  const shown = await (await ask("/inspector/template", { template: template() }, signal)).json();
  const able = Object.entries(shown.capabilities);
  show(
    "template",
    el("p", { class: "quiet" }, `sha256 ${shown.template_hash.slice(0, 16)}…, ${shown.chat_template.length} characters; calls: ${shown.summary.calls}; reasoning: ${shown.summary.reasoning}`),
    el("h3", {}, "What was proven, by a round trip through the template"),
    table(["claim", "", "messages", "why"], Object.entries(shown.proof).map(([name, claim]) => [
      name, el("span", { class: claim.status.replaceAll(" ", "-") }, claim.status), claim.messages || "", claim.why,
    ])),
    el("h3", {}, "What the template can take, found by running it"),
    el("ul", { class: "tiles" }, ...able.map(([name, yes]) => el("li", { class: yes ? "yes" : "no", "aria-label": `${name}: ${yes ? "yes" : "no"}` }, name.replace("supports_", "").replaceAll("_", " ")))),
    el("h3", {}, "What was learned, and from which evidence"),
    table(["fact", "value", "because of"], shown.facts.map((fact) => [
      fact.name, el("span", { class: "mono" }, fact.value), el("span", { class: "why" }, fact.why.join("; ")),
    ])),
    el("h3", {}, "An example, as it is rendered"),
    shown.example.error ? el("p", { class: "fault" }, shown.example.error) : el("pre", { class: "text" }, ...provenance(shown.example.parts)),
    el("details", {}, el("summary", {}, "The template itself"), el("pre", { class: "text" }, shown.chat_template)),
  );
}

function table(head, rows) {
  return el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, ...head.map((each) => el("th", { scope: "col" }, each)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell) => el("td", {}, cell))))),
  ));
}

export async function showGrammar(signal) {
  const notation = $("notation").value;
  const shown = await (await ask("/inspector/grammar", { ...asked(), to: notation }, signal)).json();
  $("grammar-note").textContent = "";
  if (notation === "listing") {
    show(
      "grammar-text",
      shown.write && el("h3", {}, "What the model may write, under a constraint"),
      shown.write ? rules("write", shown.write) : el("p", { class: "fault" }, shown.error),
      el("h3", {}, "How its output is read, the best way first"),
      rules("read", shown.read),
      el("p", { class: "quiet" }, "'x' text · [a-z] characters · . any · / or · * + ? {n} repeats · *? as few as possible · <name: region of the message> · commit(label): no other reading is possible from here on · negate(x): x does not come next"),
    );
    return;
  }
  const written = shown[notation];
  if (shown.lazy) $("grammar-note").textContent = `applies from the first of these on: ${shown.triggers.join("  ")}`;
  else if (shown.constrains === false) $("grammar-note").textContent = "no tools and no form of answer: an engine needs no grammar";
  show("grammar-text", el("pre", { class: "text" }, typeof written === "string" ? written : JSON.stringify(written, null, 2)));
}

// Rules with their names linked to where they stand.
function rules(side, listed) {
  const names = new Set(listed.map((each) => each.rule));
  const linked = (way) => {
    const pieces = way.split(/('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[A-Za-z_][\w.+-]*)/);
    // Behind "<" stands the name of a region, behind "commit(" a label: neither is a rule.
    const isRule = (piece, at) => names.has(piece) && !/(<|commit\()$/.test(pieces[at - 1]);
    return pieces.map((piece, at) => (isRule(piece, at) ? el("a", { href: `#${side}-${piece}` }, piece) : piece));
  };
  return el("div", { class: "rules mono" }, ...listed.map(({ rule, ways }) => el("div", { class: "rule", id: `${side}-${rule}` },
    el("b", {}, rule), " = ",
    ...(ways.length === 1 ? linked(ways[0]) : ways.map((way, at) => el("span", { class: "way" }, at ? "/ " : "  ", ...linked(way)))),
  )));
}

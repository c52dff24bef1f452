// The page: which tab is open, and what is asked again when the form changes.

import { $, ask, el, later, say } from "./dom.js";
import { startAsking } from "./asking.js";
import { showGrammar, showPrompt, showTemplate } from "./showing.js";
import { startTurn } from "./turn.js";

const SHOWING = { prompt: showPrompt, template: showTemplate, grammar: showGrammar };
let open = "prompt";

const refresh = later(async (signal) => {
  const work = SHOWING[open];
  if (!work) return;
  const panel = $(open);
  panel.setAttribute("aria-busy", "true");
  try {
    await work(signal);
    panel.classList.remove("stale");
    say("");
  } catch (error) {
    if (error.name !== "AbortError") panel.classList.add("stale");  // what it shows belongs to an earlier request
    throw error;
  } finally {
    panel.removeAttribute("aria-busy");
  }
});

// What the form does before it tells may fail: then that is said, and nothing is asked.
function changed(first) {
  try {
    first?.();
    refresh();
  } catch (error) {
    say(error.message, true);
  }
}

function select(tab) {
  for (const each of document.querySelectorAll("[role=tab]")) {
    const chosen = each === tab;
    each.setAttribute("aria-selected", String(chosen));
    each.tabIndex = chosen ? 0 : -1;
    $(each.getAttribute("aria-controls")).hidden = !chosen;
  }
  open = tab.getAttribute("aria-controls");
  refresh();
}

function startTabs() {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  for (const [at, tab] of tabs.entries()) {
    tab.addEventListener("click", () => select(tab));
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      const next = tabs[(to + tabs.length) % tabs.length];
      next.focus();
      select(next);
    });
  }
}

async function start() {
  const served = await (await ask("/inspector/served")).json();
  const parts = [served.model, served.context_tokens && `context ${served.context_tokens}`, served.vocabulary && `vocabulary ${served.vocabulary}`];
  $("served").textContent = parts.filter(Boolean).join(" · ");
  $("notation").append(...served.notations.map((name) => el("option", {}, name)));
  startTabs();
  startTurn();
  startAsking(served.formats, served.example, changed);
  $("as-tokens").addEventListener("change", refresh);
  $("notation").addEventListener("change", refresh);
  refresh();
}

start().catch((error) => say(error.message, true));

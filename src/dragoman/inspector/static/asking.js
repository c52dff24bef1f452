// The form on the left: which template, which messages, which tools. `asked()` is the body that every request shares.

import { $, el } from "./dom.js";

// Fields of the edited messages that the rows do not show (tool_calls, ids) are kept beside their row.
const more = new WeakMap();
let changed = () => {};

export function asked() {
  return { template: template(), request: request() };
}

export function template() {
  const picked = $("source").value;
  if (picked === "served") return null;
  if (picked !== "pasted") return { name: picked };
  const source = { source: $("jinja").value };
  if ($("bos").value) source.bos_token = $("bos").value;
  if ($("eos").value) source.eos_token = $("eos").value;
  return source;
}

function request() {
  if (!$("request").hidden) return parsed("request", "The request");
  const body = { messages: messages() };
  $("tools").removeAttribute("aria-invalid");
  if ($("tools").value.trim()) {
    const tools = parsed("tools", "Tools");
    body.tools = Array.isArray(tools) ? tools : tools?.tools;
    if (!Array.isArray(body.tools)) {
      $("tools").setAttribute("aria-invalid", "true");
      throw new Error('Tools must be a list: [{"type": "function", "function": {"name": ...}}], or an object whose "tools" is one');
    }
    const choice = $("choice").value;
    body.tool_choice = ["auto", "none", "required"].includes(choice) ? choice : { type: "function", function: { name: choice } };
  }
  if ($("thinking").value) body.enable_thinking = $("thinking").value === "true";
  return body;
}

function messages() {
  return [...$("messages").children].map((row) => ({
    ...more.get(row),
    role: row.querySelector("select").value,
    content: row.querySelector("textarea").value,
  }));
}

function parsed(id, what) {
  try {
    $(id).removeAttribute("aria-invalid");
    return JSON.parse($(id).value);
  } catch (error) {
    $(id).setAttribute("aria-invalid", "true");
    throw new Error(`${what} must be JSON: ${error.message}`);
  }
}

function addRow(message) {
  const row = $("message-row").content.firstElementChild.cloneNode(true);
  const role = row.querySelector("select");
  if (![...role.options].some((option) => option.value === message.role)) role.append(el("option", {}, message.role));
  role.value = message.role;
  row.querySelector("textarea").value = typeof message.content === "string" ? message.content : "";
  const { role: _, content, ...others } = message;
  more.set(row, others);
  row.querySelector(".remove").addEventListener("click", () => {
    const next = row.nextElementSibling ?? row.previousElementSibling;
    row.remove();
    (next?.querySelector("textarea") ?? $("add")).focus();
    changed();
  });
  $("messages").append(row);
  return row;
}

// Rows to JSON and back. JSON with content that is no text stays JSON: a row could not show it.
function toggleJson() {
  const asJson = $("request").hidden;
  if (asJson) {
    $("request").value = JSON.stringify(request(), null, 2);
  } else {
    const body = parsed("request", "The request");
    const plain = body.messages?.every((each) => typeof each.content === "string" || each.content == null);
    if (!plain) throw new Error("Messages whose content is no text can be edited as JSON only");
    $("messages").replaceChildren();
    body.messages.forEach(addRow);
    $("tools").value = body.tools ? JSON.stringify(body.tools, null, 2) : "";
    offerChoices();
    const choice = body.tool_choice?.function?.name ?? body.tool_choice;
    if (choice) $("choice").value = choice;
    $("thinking").value = body.enable_thinking === undefined ? "" : String(body.enable_thinking);
  }
  for (const id of ["request", "request-label"]) $(id).hidden = !asJson;
  for (const id of ["messages", "add"]) $(id).hidden = asJson;
  for (const id of ["tools", "example-tools", "choice", "thinking"]) $(id).disabled = asJson;
  $("as-json").textContent = asJson ? "As messages" : "As JSON";
}

function offerChoices() {
  let names = [];
  try {
    const tools = JSON.parse($("tools").value || "[]");
    names = (tools.tools ?? tools).map((tool) => (tool.function ?? tool).name).filter(Boolean);
  } catch { /* half written */ }
  const kept = $("choice").value;
  $("choice").replaceChildren(...["auto", "none", "required", ...names].map((name) => el("option", {}, name)));
  if ([...$("choice").options].some((option) => option.value === kept)) $("choice").value = kept;
}

export function startAsking(formats, example, whenChanged) {
  changed = whenChanged;
  $("formats").append(...formats.map((name) => el("option", {}, name)));
  addRow({ role: "system", content: "You are a helpful assistant." });
  addRow({ role: "user", content: example.question });
  $("add").addEventListener("click", () => {
    const last = $("messages").lastElementChild?.querySelector("select").value;
    addRow({ role: last === "user" ? "assistant" : "user", content: "" }).querySelector("textarea").focus();
    changed();
  });
  $("as-json").addEventListener("click", () => changed(toggleJson));
  $("example-tools").addEventListener("click", () => {
    $("tools").value = JSON.stringify(example.tools, null, 2);
    offerChoices();
    changed();
  });
  $("upload").addEventListener("change", async () => {
    const [file] = $("upload").files;
    if (!file) return;
    $("jinja").value = await file.text();
    $("upload").value = "";
    changed();
  });
  $("ask").addEventListener("submit", (event) => event.preventDefault());
  $("ask").addEventListener("input", (event) => {
    if (event.target === $("upload")) return;
    if (event.target === $("source")) $("pasted").hidden = $("source").value !== "pasted";
    if (event.target === $("tools")) offerChoices();
    changed();
  });
}

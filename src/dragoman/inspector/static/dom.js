// Elements, requests and the line that says what went wrong. Text is only ever set as text, never as markup.

export const $ = (id) => document.getElementById(id);

export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") made.className = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function show(id, ...children) {
  $(id).replaceChildren(...children.filter((child) => child !== null && child !== undefined));
}

export function say(message, fault = false) {
  const line = $("status");
  line.hidden = !message;
  line.textContent = message;
  line.classList.toggle("fault", fault);
}

let key = "";

// Ask the server; its own words where it refuses. `signal` ends a request that nobody waits for any more.
export async function ask(path, body, signal) {
  for (;;) {
    const headers = key ? { Authorization: `Bearer ${key}` } : {};
    const options = body === undefined ? { headers, signal } : {
      method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body), signal,
    };
    const answer = await fetch(path, options);
    if (answer.ok) return answer;
    const said = await answer.json().catch(() => ({}));
    if (answer.status === 401) {
      key = prompt(`${said.error?.message ?? "This server asks for a key."}\nThe server's API key:`) ?? "";
      if (key) continue;
    }
    throw new Error(said.error?.message ?? `The server answered ${answer.status}`);
  }
}

// Runs `work` a little after the last call of many; a newer call ends the older one's request.
export function later(work, milliseconds = 250) {
  let timer, running;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      running?.abort();
      const mine = (running = new AbortController());
      try {
        await work(mine.signal);
      } catch (error) {
        if (mine === running && error.name !== "AbortError") say(error.message, true);
      }
    }, milliseconds);
  };
}

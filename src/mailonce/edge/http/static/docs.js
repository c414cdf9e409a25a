"use strict";
// Renders /openapi.json and lets a reader try each operation; no library, no other host.

const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

const resolve = (api, schema) => {
  if (!schema) return {};
  if (schema.$ref) return resolve(api, schema.$ref.split("/").slice(1).reduce((o, k) => o[k], api));
  return schema;
};

const typeOf = (api, schema) => {
  const s = resolve(api, schema);
  if (s.enum) return s.enum.join(" | ");
  if (s.anyOf) return s.anyOf.map((one) => typeOf(api, one)).join(" or ");
  if (s.type === "array") return `list of ${typeOf(api, s.items)}`;
  return s.type || "any";
};

const sampleOf = (api, schema) => {
  const s = resolve(api, schema);
  const sample = {};
  for (const name of s.required || []) {
    const field = resolve(api, s.properties[name]);
    sample[name] = field.default ?? (field.type === "integer" ? 0 : "");
  }
  return sample;
};

const fieldRow = (api, name, schema, required, where) => {
  const input = make("input", { name, "data-in": where, placeholder: required ? "required" : "" });
  const s = resolve(api, schema);
  return make("div", { class: "field" },
    make("code", {}, name), input,
    make("small", {}, [typeOf(api, schema), s.description].filter(Boolean).join(" · ")));
};

const send = async (form, method, path, output) => {
  let url = path;
  const query = new URLSearchParams();
  for (const input of form.querySelectorAll("input[name]")) {
    if (input.dataset.in === "path") url = url.replace(new RegExp(`{${input.name}(:path)?}`), encodeURIComponent(input.value));
    else if (input.value) query.set(input.name, input.value);
  }
  const headers = {};
  const key = document.getElementById("key").value.trim();
  if (key) headers.Authorization = `Bearer ${key}`;
  const area = form.querySelector("textarea");
  if (area) headers["Content-Type"] = "application/json";
  output.textContent = "…";
  try {
    const answer = await fetch(url + (query.size ? `?${query}` : ""), { method, headers, body: area ? area.value : undefined });
    const text = await answer.text();
    let shown = text;
    try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* not JSON: shown as it is */ }
    output.textContent = `${answer.status} ${answer.statusText}\n${shown}`;
  } catch (error) {
    output.textContent = `not sent: ${error.message}`;
  }
};

const operation = (api, path, method, described) => {
  const form = make("form", { class: "body" });
  if (described.description) form.append(make("p", {}, described.description));
  for (const p of described.parameters || []) form.append(fieldRow(api, p.name, p.schema, p.required, p.in));
  const content = described.requestBody?.content?.["application/json"];
  if (content) {
    const schema = resolve(api, content.schema);
    for (const [name, field] of Object.entries(schema.properties || {})) {
      form.append(make("div", { class: "field" },
        make("code", {}, name + ((schema.required || []).includes(name) ? " *" : "")),
        make("small", {}, typeOf(api, field)), make("small", {}, resolve(api, field).description || field.description || "")));
    }
    const area = make("textarea", { name: "body", "aria-label": "request body" });
    area.value = JSON.stringify(sampleOf(api, content.schema), null, 2);
    form.append(area);
  }
  const output = make("pre", { hidden: "" });
  form.append(make("button", { type: "submit" }, "Send"), output);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    output.hidden = false;
    send(form, method.toUpperCase(), path, output);
  });
  const names = (described.parameters || []).map((p) => p.name);
  const words = [method, path, described.summary, described.description, ...names].join(" ").toLowerCase();
  return make("details", { "data-words": words },
    make("summary", {},
      make("span", { class: `method ${method}` }, method.toUpperCase()),
      make("span", { class: "path" }, path),
      make("span", { class: "what" }, described.summary || "")),
    form);
};

// Shows the operations that have each word in their path, description or parameters.
const find = () => {
  const words = document.getElementById("find").value.toLowerCase().split(/\s+/);
  for (const one of document.querySelectorAll("details")) one.hidden = !words.every((word) => one.dataset.words.includes(word));
  for (const heading of document.querySelectorAll("h2")) {
    let next = heading.nextElementSibling;
    while (next?.hidden) next = next.nextElementSibling;
    heading.hidden = next?.tagName !== "DETAILS";
  }
  const nothing = document.getElementById("nothing");
  if (nothing) nothing.hidden = Boolean(document.querySelector("details:not([hidden])"));
};

// The key stays for as long as this tab is open, over reloads.
const keepKey = (input) => {
  input.value = sessionStorage.getItem("key") || "";
  input.addEventListener("input", () => sessionStorage.setItem("key", input.value));
};

const render = (api) => {
  document.getElementById("summary").textContent = `${api.info.summary || ""} ${api.info.version}`;
  const groups = new Map();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, described] of Object.entries(methods)) {
      const tag = (described.tags || ["other"])[0];
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(operation(api, path, method, described));
    }
  }
  const main = document.getElementById("operations");
  main.replaceChildren();
  for (const [tag, operations] of groups) {
    const id = `tag-${tag.replace(/\W/g, "-")}`;
    document.getElementById("tags").append(make("a", { href: `#${id}` }, tag));
    main.append(make("h2", { id }, tag), ...operations);
  }
  const hint = "No operation matches. To look up an address, open GET /v1/suppressions/{address}, or GET /v1/events with its recipient.";
  main.append(make("p", { id: "nothing" }, hint));
  find();
};

keepKey(document.getElementById("key"));
document.getElementById("find").addEventListener("input", find);

fetch("/openapi.json").then((answer) => answer.json()).then(render)
  .catch((error) => { document.getElementById("operations").textContent = `The API's description cannot be read: ${error.message}`; });

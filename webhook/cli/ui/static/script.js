// Draws the state that the server sends, or that stands in the file. All text goes through textContent: none of it is HTML.
const PARTS = ["allocated", "promised", "free", "unusable", "unknown"]; // unknown: without the right to list pods
const UNITS = { whole: "GPU", slice: "slice", share: "share" };
const CLASSES = ["inference", "inference-critical", "service", "training", "development"];
const HEALTH = { cordoned: "cordoned", notReady: "not ready", unhealthy: "unhealthy", offersNoGpus: "offers no GPUs", unknown: "health not known" };
const MANY = 64, SHOWN = 60, MAX_LISTED = 200, MAX_PODS = 5000, RETRY = 2000;
const $ = id => document.getElementById(id);
const embedded = $("state") && JSON.parse($("state").textContent);
const drawn = new Map();
let state = null, token = "", details = null, reached = 0, shownRows = SHOWN, shownHolders = 12;
let choice = { pod: "", q: "", cause: "", by: "namespace", holder: "", ask: "" };

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined).map(child => child instanceof Node ? child : String(child)));
  return element;
}
const put = (element, ...children) => element.replaceChildren(...children.filter(child => child !== null && child !== undefined));
const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
const key = each => `${each.namespace}/${each.name}`;
const sum = counts => Object.values(counts).reduce((a, b) => a + b, 0);
const waits = pod => state.waiting.some(row => row.pods.some(name => `${row.namespace}/${name}` === pod));
const now = () => state.live ? Date.now() / 1000 : state.taken;
const clock = seconds => new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const day = seconds => new Date(seconds * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short", hourCycle: "h23" });
function age(since) {
  if (!since || !state.taken) return "";
  const seconds = Math.max(0, now() - since);
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60]]) if (seconds >= 2 * size) return `${Math.floor(seconds / size)}${unit}`;
  return `${Math.floor(seconds)}s`;
}
// Draw a part only if what it shows has changed: the rest of the page keeps its focus and its scroll position.
function once(name, shows, draw) {
  const text = JSON.stringify(shows);
  if (drawn.get(name) === text) return;
  drawn.set(name, text);
  const active = document.activeElement?.closest("[data-focus]")?.dataset.focus;
  draw();
  if (active && document.activeElement === document.body) document.querySelector(`[data-focus="${CSS.escape(active)}"]`)?.focus({ preventScroll: true });
}
function copied(text, label = "Copy") {
  const button = make("button", { type: "button", "aria-label": `${label}: ${text}` }, label);
  button.addEventListener("click", async event => {
    event.stopPropagation();
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = label; }, 1200);
  });
  return button;
}

// ---- the choice: in the fragment of the address, so that a link shows the same
function readHash() {
  const given = new URLSearchParams(location.hash.slice(1));
  token = given.get("token") || token;
  for (const name of Object.keys(choice)) choice[name] = given.get(name) || (name === "by" ? "namespace" : "");
  $("search").value = choice.q;
}
function hash(withToken) {
  const given = new URLSearchParams();
  if (withToken && token) given.set("token", token);
  for (const [name, value] of Object.entries(choice)) if (value && !(name === "by" && value === "namespace")) given.set(name, value);
  return `#${given}`;
}
function choose(change) {
  choice = { ...choice, ...change };
  history.replaceState(null, "", hash(true));
  if ("pod" in change) { details = null; look(); }
  if ("ask" in change) answer();
  render();
}

// ---- the server
async function ask(path) {
  const answer = await fetch(path, { headers: { Authorization: `Bearer ${token}` } });
  if (answer.status === 204) return null;
  const found = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(found.error), { said: true, status: answer.status });
  return found;
}
async function follow() {
  for (;;) {
    try {
      const found = await ask(`/state?after=${state ? state.version : -1}`);
      reached = Date.now();
      const first = !state;
      if (found) { state = found; look(); }
      if (first) answer();
      render();
    } catch (error) {
      lost(error);
      if (error.status === 401) return;
      await new Promise(done => setTimeout(done, RETRY));
    }
  }
}
function lost(error) {
  const what = error.said ? error.message : "gpu-admission ui does not answer: it has ended, or is started anew at another address";
  banner(state ? `${what}. What you see is of ${clock(reached / 1000)}` : what);
}
// In a file the nodes of a cause are given by their place in a list: many pods have the same.
const inFile = each => each?.pending ? { ...each, pending: { ...each.pending, causes: each.pending.causes.map(cause => ({ ...cause, nodes: state.lists[cause.nodes] })) } } : each;
async function look() {
  const wanted = choice.pod;
  if (!wanted) return;
  const [namespace, ...name] = wanted.split("/");
  try {
    const found = state.about ? inFile(state.about[wanted]) : await ask(`/pod?${new URLSearchParams({ namespace, name: name.join("/") })}`);
    if (wanted !== choice.pod) return;
    details = found || { error: `this file has no more about it; gpu-admission ${waits(wanted) ? "pending" : "explain"} -n ${namespace} ${name.join("/")} says it` };
  } catch (error) { details = { error: error.message }; }
  render();
}

// ---- the parts of the page
function banner(text) {
  $("banner").hidden = !text;
  if ($("banner").textContent !== text) $("banner").textContent = text;
}
function render() {
  if (!state) return;
  $("source").textContent = state.source;
  const old = state.old ? `These data are old, of ${clock(state.old.since)}: ${state.old.why}.` : "";
  banner([old, state.problem, state.missing && `Not known: ${state.missing}.`, state.grant && `An operator gives the right by: ${state.grant}`, state.leftOut && `Left out, as this file would be too large: what helps ${state.leftOut} of ${plural(state.waiting.length, "waiting row")}.`].filter(Boolean).join(" "));
  $("fresh").className = state.live && !state.old ? "live" : "";
  $("fresh").textContent = state.live ? (state.old ? "old" : "live") : state.taken ? `as of ${day(state.taken)}` : "a file without a time";
  once("head", [state.totals, state.largest, state.history, state.withoutRight], renderHead);
  once("legend", state.nodes.flatMap(node => node.pods.map(pod => pod.class)).filter((each, at, all) => all.indexOf(each) === at).sort().concat(state.nodes.some(node => node.devices.length) ? ["+"] : []), renderLegend);
  renderMap();
  renderChoice();
  renderAsk();
  renderPod();
  once("waiting", [state.waiting, choice, details, shownRows, Math.floor(now() / 30)], renderWaiting);
  once("holders", [state.holders, choice.q && state.nodes.map(node => [node.name, node.pods.map(key)]), choice.by, choice.holder, choice.q, shownHolders], renderHolders);
  once("decisions", [state.decisions, choice.q], renderDecisions);
}
function meter(counts) {
  const bar = make("div", { class: "meter", "aria-hidden": "true" });
  for (const part of PARTS) if (counts[part]) { const piece = make("i", { class: part }); piece.style.flexGrow = counts[part]; bar.append(piece); }
  return bar;
}
const job = (each, step) => `${plural(step.nodes, "node")} × ${step.gpus}${each.kind === "whole" ? "" : ` ${UNITS[each.kind]}s`}`;
function renderHead() {
  const sums = state.totals.filter(each => each.model === null), models = state.totals.filter(each => each.model !== null);
  const blind = state.withoutRight.length, noNodes = state.withoutRight.includes("nodes"), why = `not known without the right to list ${state.withoutRight.join(" and ")}`;
  const use = !sums.length && blind ? [make("p", { class: "big" }, "GPUs: not known")] : sums.map((each, at) => make("p", { class: at ? "label" : "big" }, noNodes ? `Yours: ${plural(each.allocated, UNITS[each.kind])}` : blind ? plural(each.total, UNITS[each.kind]) : `${each.allocated + each.promised} of ${plural(each.total, UNITS[each.kind])} in use`));
  const best = state.largest[0], others = best ? best.steps.slice(1, 4).map(step => job(best, step)) : [], tolerates = each => each.taints.length ? `, if it tolerates ${each.taints.join(", ")}` : ", with no tolerations but the webhook's";
  const larger = best && state.largest.slice(1).find(each => each.kind === best.kind && (each.steps[0].gpus > best.steps[0].gpus || (each.steps[0].gpus === best.steps[0].gpus && each.steps[0].nodes > best.steps[0].nodes)));
  const start = make("p", { class: "largest", id: "largest", title: "Of one model, on healthy nodes, with at least one free CPU for each GPU, for pods with the tolerations that the webhook adds" },
    make("span", { class: "label" }, "Largest job that could start now"),
    make("b", {}, blind ? why : best ? job(best, best.steps[0]) : "none, as no healthy node has a free GPU and CPU"),
    make("span", { class: "label" }, best ? [best.model, others.length ? `or ${others.join(", ")}` : ""].filter(Boolean).join(", ") + tolerates(best) : ""),
    larger ? make("span", { class: "label larger" }, `${job(larger, larger.steps[0])}, ${larger.model}${tolerates(larger)}`) : null);
  const shown = noNodes ? ["allocated"] : blind ? ["total", "allocated", "unknown"] : ["total", ...PARTS.slice(0, 4)];
  const ambiguous = each => each.model !== null && models.filter(other => other.model === each.model).length > 1;
  const line = (each, name) => make("tr", { class: each.model === null ? "sum" : null, "data-model": each.model, "data-kind": each.kind },
    make("td", {}, name, ambiguous(each) ? make("small", {}, each.resource) : null), ...shown.map(part => make("td", { "data-part": part }, each[part] ?? 0)), make("td", {}, meter(each)));
  const titles = ["Model", ...shown.map(part => blind ? { total: "Total", allocated: "Yours", unknown: "Not known" }[part] : part[0].toUpperCase() + part.slice(1)), ""];
  const table = make("table", { class: "models" }, make("thead", {}, make("tr", {}, ...titles.map(title => make("th", { scope: "col" }, title)))),
    make("tbody", {}, ...sums.map(each => line(each, `All ${UNITS[each.kind]}s`)), ...models.map(each => line(each, each.model || "unknown model"))));
  const follows = state.live && !blind;
  $("head").className = follows ? "with-trend" : "";
  put($("head"), make("div", {}, ...use, start), models.length ? make("div", { class: "scroll", tabindex: models.length > 5 ? "0" : null, role: "region", "aria-label": "GPUs by model" }, table) : null, follows ? trend() : null);
}
function trend() {
  const points = state.history;
  if (points.length < 2) return make("div", {}, make("span", { class: "label" }, "GPUs in use since this was opened: no change yet"));
  const [from, to] = [points[0][0], Math.max(now(), points.at(-1)[0])], most = Math.max(1, ...points.map(each => each[1] + each[2] + each[3] + each[4]));
  const x = time => (1000 * (time - from) / Math.max(1, to - from)).toFixed(1), y = used => (50 - 46 * used / most).toFixed(1);
  let line = "";
  points.forEach((each, at) => { line += `${at ? `H${x(each[0])}V` : `M${x(each[0])},`}${y(each[1] + each[2])}`; });
  line += "H1000";
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [name, value] of Object.entries({ viewBox: "0 0 1000 54", preserveAspectRatio: "none", class: "spark", role: "img" })) svg.setAttribute(name, value);
  const used = points.at(-1)[1] + points.at(-1)[2], first = points[0][1] + points[0][2];
  const text = `GPUs in use since ${clock(from)}: ${first}, now ${used}`;
  svg.setAttribute("aria-label", text);
  for (const [d, name] of [[`${line}V54H0Z`, "area"], [line, ""]]) { const path = document.createElementNS(svg.namespaceURI, "path"); path.setAttribute("d", d); path.setAttribute("class", name); svg.append(path); }
  return make("div", {}, make("span", { class: "label" }, text), svg);
}
function renderLegend() {
  const classes = [...new Set(state.nodes.flatMap(node => node.pods.concat(node.promises).map(pod => pod.class)))].sort((a, b) => CLASSES.indexOf(a) - CLASSES.indexOf(b));
  const entry = (kind, name, letter = "") => make("span", {}, make("i", { class: `cell ${kind}`, "aria-hidden": "true" }, letter), name);
  const marks = state.withoutRight.length ? [["unknown", "not known"]] : [["promised training", "promised"], ["free", "free"], ["unusable", "unusable"]];
  const measured = state.nodes.some(node => node.devices.length) ? [["device idle", "idle"], ["device hot", "hot"], ["device sick", "sick"]] : [];
  $("legend").hidden = !state.nodes.length;
  put($("legend"), ...classes.map(each => entry(style(each), each, letter(each))), ...marks.map(each => entry(...each)),
    ...measured.map(([kind, name]) => make("span", {}, make("i", { class: kind, "aria-hidden": "true" }), name)));
}
const style = of => CLASSES.includes(of) ? of : "other";
const letter = of => (of[0] || "?").toUpperCase();

// ---- the map
const gpus = amount => +amount.toFixed(3); // parts of GPUs are fractions
function cells(node) {
  const found = [];
  for (const [resource, counts] of Object.entries(node.parts)) {
    const cellsOf = (count, kind) => kind === "held" || kind === "promised" ? Math.ceil(gpus(count)) : Math.floor(gpus(count));
    const add = (count, cell) => { for (let at = 0; at < cellsOf(count, cell.kind); at++) found.push({ ...cell, idle: at < (cell.quiet || 0), resource, same: at > 0 && !!cell.pod, count: gpus(count) }); };
    const alone = of => Object.keys(of).length === 1, idle = node.idle > 0 && node.idle >= counts.allocated && alone(node.parts);
    const quiet = pod => unnamed(pod) ? idle && Infinity : alone(pod.gpus) && pod.idle;
    let left = counts.allocated;
    for (const pod of node.pods) { const mine = Math.min(left, pod.gpus[resource] || 0); add(mine, { kind: "held", pod, quiet: quiet(pod) }); left -= mine; }
    add(left, { kind: "held", pod: null });
    left = counts.promised;
    for (const pod of node.promises) { const mine = Math.min(left, pod.gpus[resource] || 0); add(mine, { kind: "promised", pod }); left -= mine; }
    add(left, { kind: "promised", pod: null });
    add(counts.free, { kind: "free" });
    add(counts.unusable, { kind: "unusable" });
    add(counts.unknown || 0, { kind: "unknown" });
  }
  return found;
}
function says(node, cell) {
  const unit = cell.count === 1 ? "1" : String(cell.count);
  const why = node.health === "healthy" ? "it is sick, or not offered" : HEALTH[node.health];
  const what = { free: "free", unknown: "not known who has it, or whether it is free:", unusable: `unusable: ${why}`, promised: "promised to", held: "held by" }[cell.kind];
  const who = cell.pod ? ` ${key(cell.pod)}` : cell.kind === "held" || cell.kind === "promised" ? " a pod that is not known" : "";
  const more = cell.pod ? `\n${cell.pod.owner}, ${cell.pod.class}` : "";
  return `${what}${who}${more}\n${unit} ${cell.resource} on ${node.name}${!cell.quiet ? "" : cell.quiet < cell.count ? `, ${cell.quiet} of them idle now` : ", idle now"}`;
}
function describes(device) {
  const known = [device.percent === null ? "" : `${device.percent} % used`, device.memory ? `${Math.round(device.memory[0] / 1024)}/${Math.round(device.memory[1] / 1024)} GiB` : "", device.temperature === null ? "" : `${device.temperature} °C`];
  return `${device.name}: ${[...["sick", "hot", "idle"].filter(mark => device[mark]), ...known].filter(Boolean).join(", ") || "nothing known"}`;
}
function summary(node) {
  const amounts = Object.entries(node.parts).map(([resource, counts]) => `${gpus(sum(counts))} ${resource}: ${PARTS.filter(part => counts[part]).map(part => `${counts[part]} ${part}`).join(", ") || "none"}`);
  return `${node.name}, ${HEALTH[node.health] || "healthy"}${node.model ? `, ${node.model}` : ""}. ${amounts.join("; ") || "no GPUs"}`;
}
function state_of(node) {
  const free = Object.values(node.parts).reduce((all, counts) => all + counts.free, 0);
  const marks = [HEALTH[node.health], node.sick ? `${node.sick} sick` : "", node.idle ? `${node.idle} idle` : "", node.temperature >= 90 ? `${node.temperature} °C` : ""].filter(Boolean);
  return state.withoutRight.includes("nodes") ? "yours; the rest is not known" : marks.length ? marks.join(", ") : state.withoutRight.length ? "" : `${gpus(free)} free`;
}
function drawNode(node) {
  const all = cells(node), bunched = all.length > MANY;
  const shown = bunched ? all.filter(cell => !cell.same).filter((cell, at, rest) => cell.pod || rest.findIndex(other => other.kind === cell.kind && other.resource === cell.resource && !other.pod) === at) : all;
  const squares = shown.map(cell => {
    const mark = cell.pod ? letter(cell.pod.class) : cell.kind === "held" || cell.kind === "unknown" ? "?" : "";
    const square = make("i", { role: "gridcell", tabindex: "-1", class: `cell ${cell.kind}${cell.pod ? ` ${style(cell.pod.class)}` : ""}${cell.same ? " same" : ""}${cell.idle ? " idle" : ""}`, "aria-label": says(node, cell).replaceAll("\n", ", ") }, bunched ? cell.count : cell.same ? "" : mark);
    square.tip = says(node, cell);
    square.cell = cell;
    return square;
  });
  const devices = node.devices.map(device => {
    const square = make("i", { class: `device${device.idle ? " idle" : ""}${device.hot ? " hot" : ""}${device.sick ? " sick" : ""}` });
    if (device.percent !== null) square.style.setProperty("--u", `${device.percent}%`);
    square.tip = describes(device);
    return square;
  });
  const name = make("span", { class: "name", role: "rowheader", tabindex: "-1", "aria-label": summary(node) }, node.name);
  name.tip = [summary(node), node.taints.length ? `taints: ${node.taints.join(", ")}` : "", ...node.devices.map(describes)].filter(Boolean).join("\n");
  const row = make("div", { role: "row", class: `node ${node.health}${all.length > 24 && !bunched ? " small" : ""}`, "data-node": node.name }, name,
    make("span", { class: "cells", role: "presentation" }, ...squares, devices.length ? make("span", { class: "devices", "aria-hidden": "true" }, ...devices) : null),
    make("span", { class: "say", role: "gridcell" }));
  return row;
}
const rows = new Map();
function renderMap() {
  const pools = new Map();
  for (const node of state.nodes) pools.set(node.pool, [...(pools.get(node.pool) || []), node]);
  const names = new Set();
  for (const node of state.nodes) {
    names.add(node.name);
    const text = JSON.stringify(node), known = rows.get(node.name);
    if (known?.text === text) continue;
    const row = drawNode(node), focused = known && known.row.contains(document.activeElement);
    const at = focused ? steps(known.row).indexOf(document.activeElement) : 0;
    if (known) known.row.replaceWith(row);
    rows.set(node.name, { row, text, node });
    if (focused) (steps(row)[at] || steps(row)[0]).focus({ preventScroll: true });
  }
  for (const [name, { row }] of rows) if (!names.has(name)) { row.remove(); rows.delete(name); }
  once("pools", [...pools].map(([pool, nodes]) => [pool, nodes.map(node => [node.name, node.parts])]), () => {
    const kept = new Map([...document.querySelectorAll(".pool")].map(each => [each.dataset.pool, each]));
    const sections = [...pools].map(([pool, nodes]) => {
      const counts = nodes.flatMap(node => Object.values(node.parts)), total = counts.reduce((all, each) => all + sum(each), 0), free = counts.reduce((all, each) => all + each.free, 0);
      const section = kept.get(pool) || make("div", { class: "pool", role: "rowgroup", "data-pool": pool }, make("h3", { role: "presentation" }), make("div", { class: "nodes", role: "presentation" }));
      section.firstChild.replaceChildren(pool || (state.withoutRight.includes("nodes") ? "nodes of your pods" : "no pool"), make("span", {}, `${plural(nodes.length, "node")}, ${state.withoutRight.length ? plural(gpus(total), "GPU") : `${gpus(free)} of ${gpus(total)} free`}`));
      const list = section.lastChild, wanted = nodes.map(node => rows.get(node.name).row);
      if (list.children.length !== wanted.length || wanted.some((row, at) => list.children[at] !== row)) list.replaceChildren(...wanted);
      return section;
    });
    const map = $("map"), none = state.withoutRight.includes("nodes") ? "Not known without the right to list nodes." : "No node has GPUs.";
    if (!sections.length) sections.push(make("p", { class: "empty" }, none));
    if (map.children.length !== sections.length || sections.some((each, at) => map.children[at] !== each)) map.replaceChildren(...sections);
  });
  if (!$("map").querySelector('[tabindex="0"]')) $("map").querySelector(".name")?.setAttribute("tabindex", "0");
}
const holderOf = pod => ({ namespace: pod.namespace, owner: `${pod.namespace}/${pod.owner}`, class: pod.class })[choice.by];
const hay = each => JSON.stringify(each).toLowerCase();
function renderChoice() {
  const answer = choice.pod && details?.pending, causes = answer ? answer.causes : [], ranked = (choice.pod && details?.explain?.nodes) || [];
  const out = new Map();
  for (const cause of causes) for (const name of cause.nodes) if (!out.has(name)) out.set(name, cause);
  const place = new Map(ranked.map((node, at) => [node.name, at + 1])), q = choice.q.toLowerCase();
  const filtered = causes.length && causes.some(cause => cause.nodes.length);
  const could = state.withoutRight.length ? "not known" : "could take it";
  let ruledOut = 0;
  $("map").classList.toggle("choosing", !!filtered);
  for (const { row, node, text } of rows.values()) {
    const cause = out.get(node.name), fits = filtered && !cause;
    ruledOut += !!cause;
    row.hidden = !!q && !text.toLowerCase().includes(q);
    row.classList.toggle("out", !!cause && cause.cause !== "fitsNow");
    row.classList.toggle("fits", !state.withoutRight.length && !!(fits || cause?.cause === "fitsNow"));
    const say = row.lastChild, said = cause && cause.cause !== "fitsNow" ? words(cause.cause) : fits || cause ? could : state_of(node);
    const rank = place.has(node.name) ? `#${place.get(node.name)} ` : "";
    if (say.textContent !== rank + said) { say.textContent = rank + said; say.tip = cause ? cause.text : ""; }
    say.classList.toggle("bad", !cause && node.health !== "unknown" && !!(HEALTH[node.health] || node.sick));
    const own = !!choice.pod && node.pods.some(pod => key(pod) === choice.pod), mark = `${choice.holder && choice.by} ${choice.holder} ${own ? choice.pod : ""}`;
    if (row.mark === mark || (!row.mark && !choice.holder && !own)) continue;
    row.mark = mark;
    for (const square of row.children[1].children) if (square.cell) {
      square.classList.toggle("dim", !!choice.holder && !(square.cell.pod && holderOf(square.cell.pod) === choice.holder));
      square.classList.toggle("chosen", !!square.cell.pod && key(square.cell.pod) === choice.pod);
    }
  }
  for (const pool of document.querySelectorAll(".pool")) pool.hidden = ![...pool.lastChild.children].some(row => !row.hidden);
  const note = !choice.pod || (details && !details.error && !answer) ? (choice.holder ? `Shown: the GPUs of ${choice.holder}` : "") : !details ? `Looking at ${choice.pod} …` : details.error ? details.error
    : filtered ? `${choice.pod}: ${ruledOut} of ${plural(rows.size, "node")} ruled out; the reason stands beside each` : state.nodes.length ? `${choice.pod}: no node is ruled out; see why it waits` : "";
  if ($("map-note").textContent !== note) $("map-note").textContent = note;
}
const words = cause => (cause.match(/[A-Z]?[a-z]+/g) || [cause]).map(word => ({ cpu: "CPU", gpu: "GPU", gpus: "GPUs" })[word.toLowerCase()] || word.toLowerCase()).join(" ");

// ---- what waits
function renderWaiting() {
  const q = choice.q.toLowerCase(), counts = new Map();
  for (const row of state.waiting) counts.set(row.cause, (counts.get(row.cause) || 0) + row.pods.length);
  $("waiting-title").textContent = `Waiting: ${plural(state.waiting.reduce((all, row) => all + row.pods.length, 0), "pod")}`;
  const tab = (name, label) => make("button", { type: "button", "data-focus": `cause ${name}`, "aria-pressed": String(choice.cause === name), on: { click: () => choose({ cause: name }) } }, label);
  put($("causes"), ...(counts.size > 1 ? [tab("", "all"), ...[...counts].sort((a, b) => b[1] - a[1]).map(([cause, count]) => tab(cause, `${words(cause)} ${count}`))] : []));
  const shown = state.waiting.filter(row => (!choice.cause || row.cause === choice.cause) && (!q || hay(row).includes(q)));
  const items = shown.slice(0, shownRows).map(row => {
    const first = `${row.namespace}/${row.pods[0]}`, open = row.pods.some(pod => `${row.namespace}/${pod}` === choice.pod);
    const numbers = [row.gpus ? plural(row.gpus, "GPU") : "", age(row.since)].filter(Boolean).join(", ");
    const button = make("button", { type: "button", "aria-expanded": String(open), "data-focus": `row ${first}`, on: { click: () => choose({ pod: open ? "" : first }) } },
      make("span", { class: "who" }, `${row.namespace}/${row.name}`), make("span", { class: "num" }, numbers), make("span", { class: "why" }, row.why), make("span", {}),
      make("span", { class: `fix${row.enough ? " enough" : ""}` }, `${row.enough ? "Enough alone: " : ""}${row.fix}`));
    return make("li", { class: "row", "data-pod": first }, button, open ? about() : null);
  });
  put($("rows"), ...items, shown.length > shownRows ? more(`${shown.length - shownRows} more`, () => { shownRows += SHOWN; render(); }) : null,
    !shown.length ? make("li", { class: "empty" }, ...(state.waiting.length ? [`None of them has “${q || words(choice.cause)}” in it. `, make("button", { type: "button", on: { click: clearSearch } }, "Show all")] : ["No pod waits."])) : null);
}
const clearSearch = () => { $("search").value = ""; choose({ q: "", cause: "" }); };
const more = (text, act) => make("li", {}, make("button", { type: "button", class: "more", on: { click: act } }, text));
const runnable = fix => (fix.match(/kubectl [^(),;…]+/g) || []).filter(each => !/\bNAME\b/.test(each)).map(each => each.trim());
const causeOf = cause => make("div", { class: `cause${cause.elsewhere ? " elsewhere" : ""}`, "data-cause": cause.cause },
  make("b", {}, words(cause.cause)), `: ${cause.text}${cause.nodes.length ? ` (${plural(cause.nodes.length, "node")})` : ""}`,
  make("div", { class: "fix" }, `${cause.enough ? "Enough alone: " : ""}${cause.fix} `, ...runnable(cause.fix).map(each => copied(each))));
// The GPUs of the chosen pod, as the map shows them; of a workload, its pods.
function holds() {
  const places = new Map(state.nodes.flatMap(node => node.pods.map(pod => [key(pod), node.name])));
  const [namespace] = choice.pod.split("/"), other = name => make("li", {}, make("button", { type: "button", on: { click: () => choose({ pod: `${namespace}/${name}`, ...(given().question === "pod" ? { ask: address("pod", { namespace, name }) } : {}) }) } }, name), ` on ${places.get(`${namespace}/${name}`) || "no node"}`);
  const several = details?.pods?.length ? make("div", {}, make("p", {}, `${plural(details.pods.length, "pod")}:`), make("ul", { class: "pods" }, ...details.pods.slice(0, MAX_LISTED).map(other)), make("p", { class: "note" }, `All below is about ${details.pods[0]}.`)) : null;
  if (several) return several;
  for (const node of state.nodes) for (const pod of node.pods) if (key(pod) === choice.pod) return make("p", { class: "on" }, "On ", make("b", {}, node.name), `: ${Object.entries(pod.gpus).map(([resource, count]) => `${gpus(count)} ${resource}`).join(", ")}, ${pod.class}, ${pod.owner}`);
  return null;
}
// What is known of the chosen pod: why it waits, and the decision on it.
function about() {
  if (!details) return make("div", { class: "detail" }, "…");
  if (details.error) return make("div", { class: "detail" }, holds(), make("p", {}, details.error));
  const answer = details.pending, explained = details.explain, [namespace, ...rest] = choice.pod.split("/"), of = `-n ${namespace} ${rest.join("/")}`;
  const commands = explained ? [...(answer ? [`gpu-admission pending ${of}`] : []), `gpu-admission explain ${of}`, `kubectl describe pod ${of}`] : [`kubectl describe ${of.replace(/ ([^ /]+)\//, " $1 ")}`];
  return make("div", { class: "detail" }, holds(), ...(answer?.causes || []).map(causeOf), ...(answer?.notes || []).map(note => make("p", { class: "note" }, note)),
    answer?.schedulerSays ? make("p", { class: "says" }, `The scheduler says: ${answer.schedulerSays}`) : null,
    ...(explained ? decision(explained) : []), ...commands.map(text => make("div", { class: "command" }, make("code", {}, text), copied(text))));
}
// The chosen pod, if its row of the waiting ones does not show it.
function renderPod() {
  const hidden = !choice.pod || waits(choice.pod) || given().question === "pod";
  $("pod").hidden = hidden;
  once("pod", [hidden, choice.pod, details], () => {
    put($("pod-title"), ...(hidden ? [] : [choice.pod, make("button", { type: "button", class: "close", "aria-label": "Close", on: { click: () => choose({ pod: "", holder: "" }) } }, "×")]));
    put($("pod-detail"), hidden ? null : about());
  });
}
function decision(found) {
  if (found.undecided) return [make("p", { class: "note" }, `Decision: ${found.undecided}`)];
  const parts = [found.text, found.decided].filter(Boolean).map((text, at) => make("p", { class: at ? "note" : "on" }, text));
  if (found.policyNow) parts.push(make("p", { class: "note" }, `The policy has changed since this decision: from ${found.policy} to ${found.policyNow}.`));
  if (found.why) parts.push(make("p", { class: "note" }, `No node chosen: ${found.why}`));
  if (found.units?.length) parts.push(make("div", { class: "units" }, ...found.units.map(unit => make("div", {}, make("b", {}, unit.name), `: ${unit.text}`))));
  if (found.nodes?.length) {
    const line = (node, at) => make("tr", {}, make("td", {}, `${at + 1}. ${node.name}`), ...["free", "peers", "score"].map(name => make("td", {}, node[name])),
      make("td", { class: "remark" }, [node.name === found.boundTo ? "← bound" : "", node.last ? `${at ? "kept back" : "first, though it would be kept back"}: ${node.last}` : ""].filter(Boolean).join(", ")));
    parts.push(make("table", { class: "ranking" }, make("thead", {}, make("tr", {}, ...["Ranking", "Free", "Peers", "Score", ""].map(title => make("th", {}, title)))), make("tbody", {}, ...found.nodes.map(line))));
  }
  return parts;
}

// ---- who has GPUs, and the last decisions
// With a search: who has which GPUs of the nodes that it finds, and the pods that it finds on others. A shared claim counts once.
function holders(q) {
  if (!q) return state.holders[choice.by];
  const found = new Map();
  for (const node of state.nodes) {
    const all = hay([node.name, node.pool, node.model, node.taints]).includes(q);
    for (const pod of node.pods) {
      if (!all && !hay(pod).includes(q)) continue;
      const name = holderOf(pod), of = found.get(name) || { [choice.by]: name, pods: 0, since: pod.since, gpus: {}, claims: new Set() };
      found.set(name, of);
      of.pods += 1;
      of.since = Math.min(of.since, pod.since);
      for (const [resource, count] of Object.entries(pod.gpus)) of.gpus[resource] = (of.gpus[resource] || 0) + count;
      for (const [claim, counts] of Object.entries(pod.shared || {})) {
        if (of.claims.has(claim)) for (const [resource, count] of Object.entries(counts)) of.gpus[resource] -= count;
        of.claims.add(claim);
      }
    }
  }
  return [...found.values()].sort((a, b) => sum(b.gpus) - sum(a.gpus));
}
function renderHolders() {
  put($("by"), ...["namespace", "owner", "class"].map(by => make("button", { type: "button", "data-focus": `by ${by}`, "aria-pressed": String(choice.by === by), on: { click: () => choose({ by, holder: "" }) } }, by)));
  const all = holders(choice.q.toLowerCase());
  const items = all.slice(0, shownHolders).map(each => {
    const name = each[choice.by], on = choice.holder === name;
    const amounts = Object.entries(each.gpus).map(([resource, count]) => `${gpus(count)} ${resource}`).join(", ");
    return make("li", { class: "holder" }, make("button", { type: "button", "aria-pressed": String(on), "data-focus": `holder ${name}`, on: { click: () => choose({ holder: on ? "" : name }) } },
      make("span", {}, name), make("span", { class: "num" }, `${amounts}, ${plural(each.pods, "pod")}${each.since ? `, oldest ${age(each.since)}` : ""}${each.idle ? `, ${each.idle} idle` : ""}`)));
  });
  put($("holders"), ...items, all.length > shownHolders ? more(`${all.length - shownHolders} more`, () => { shownHolders += 100; render(); }) : null, !all.length ? make("li", { class: "empty" }, state.withoutRight.length ? "Not known." : "Nobody.") : null,
    all.length && state.withoutRight.length ? make("li", { class: "empty" }, "Others: not known.") : null);
}
function renderDecisions() {
  const open = new Set([...document.querySelectorAll(".decision[open]")].map(each => each.dataset.of)), q = choice.q.toLowerCase();
  const shown = state.decisions.filter(each => !q || hay(each).includes(q));
  put($("decisions"), ...shown.map(each => {
    const of = `${key(each)} ${each.at}`, where = each.nodes?.length ? ` → ${each.nodes[0].name}` : "";
    const result = { refused: "refused", wouldBeRefused: "would be refused" }[each.result];
    const head = make("summary", { "data-focus": `decision ${of}` }, result ? make("b", { class: "refused" }, `${result} `) : null, key(each), where, make("span", {}, ` ${[each.class, each.at ? clock(each.at) : ""].filter(Boolean).join(", ")}`));
    const lines = (each.diff || []).map(text => make("span", { class: { "+": "add", "-": "cut" }[text[0]] }, `${text}\n`));
    const body = result ? [make("p", { class: "note" }, each.text)] : [lines.length ? make("pre", { class: "diff", "aria-label": "What was added" }, ...lines) : null, ...decision(each)];
    return make("details", { class: "decision", "data-of": of, open: open.has(of) }, head, make("div", { class: "detail" }, ...body));
  }), shown.length ? null : make("p", { class: "empty" }, state.decisions.length ? "None of them." : "None is known: no pod has a decision, and no Event tells of a refusal."));
}

// ---- questions: the answers of other commands, as the server or the file gives them
const ASKED = {
  drain: { text: "Which node can I drain?", command: () => "balance -A --suggest", draw: found => drainable(found.balance) },
  idle: { text: "Which GPUs are idle, whose, since when?", command: () => "nodes --by namespace", draw: idle },
  start: { text: "Would a pod start, and what would let it?", fields: startFields, command: () => "simulate -f pod.yaml", draw: starts },
  pod: { text: "Why is a pod on its node?", fields: podFields, command: given => `explain -n ${given.namespace} ${given.name}`, draw: about },
  preempt: { text: "Who may preempt whom?", command: () => "doctor", draw: found => make("ul", { class: "checks" }, ...found.doctor.map(check)) },
  health: { text: "Is the webhook healthy?", command: () => "doctor", draw: found => checks(found) },
  audit: { text: "What would opting in change?", fields: auditFields, command: given => `audit -n ${given.namespace}`, draw: audited },
};
const given = () => Object.fromEntries(new URLSearchParams(choice.ask));
const address = (question, values = {}) => String(new URLSearchParams({ question, ...values }));
let answered = null, asking = "";
async function answer() {
  const wanted = choice.ask, { question, ...values } = given();
  answered = null;
  asking = "";
  if (!ASKED[question] || (ASKED[question].fields && !Object.keys(values).length)) return;
  if (question === "pod") return choose({ pod: `${values.namespace}/${values.name}` });
  asking = wanted;
  try {
    const found = embedded ? embedded.answers[wanted] : await ask(`/answer?${wanted}`);
    if (wanted !== choice.ask) return;
    answered = found ? { found } : { error: `this file has no answer to that; gpu-admission ${ASKED[question].command(values)} has` };
  } catch (error) { answered = { error: error.message }; }
  answered.at = Date.now() / 1000;
  asking = "";
  render();
}
function renderAsk() {
  const { question, ...values } = given(), asked = ASKED[question], isPod = question === "pod" && values.name;
  once("questions", [question], () => put($("questions"), ...Object.entries(ASKED).map(([name, { text, fields }]) => make("button", { type: "button", "data-focus": `ask ${name}`, "data-question": name, "aria-expanded": String(name === question),
    on: { click: () => choose({ ask: name === question ? "" : address(name, fields?.().given), ...(question === "pod" ? { pod: "", holder: "" } : {}) }) } }, text))));
  once("form", [question, values], () => put($("form"), asked?.fields ? make("form", { class: "fields", on: { input: () => $("answer").classList.add("stale"), submit: event => {
    event.preventDefault();
    $("answer").classList.remove("stale");
    const entries = [...new FormData(event.target)].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value);
    choose({ ask: address(question, podGiven(Object.fromEntries(entries))) });
  } } }, ...asked.fields().inputs(values), make("button", { type: "submit", class: "go" }, "Ask")) : null));
  once("answer", [choice.ask, asking, answered, isPod && details], () => {
    $("answer").classList.remove("stale");
    if (!asked || (!asking && !answered && !isPod)) return put($("answer"));
    if (asking) return put($("answer"), make("p", { class: "note" }, "Asking …"));
    const command = `gpu-admission ${asked.command(values)}`, again = state.live && answered;
    put($("answer"), answered?.error ? make("p", { class: "note" }, answered.error) : make("div", { class: "answer", "data-answer": question }, ...[asked.draw(answered?.found, values)].flat()),
      isPod ? null : make("div", { class: "command" }, make("code", {}, command), copied(command), again ? make("span", { class: "label" }, `as of ${clock(answered.at)}`) : null, again ? make("button", { type: "button", on: { click: () => { answer(); render(); } } }, "Ask again") : null));
  });
}
const podGiven = values => "pod" in values ? { namespace: values.pod.split("/")[0], name: values.pod.split("/").slice(1).join("/") } : values;
const field = (label, input) => make("label", {}, make("span", { class: "label" }, label), input);
const select = (name, all, value, none) => make("select", { name, "data-focus": `field ${name}` }, ...(none ? [make("option", { value: "" }, none)] : []), ...all.map(each => make("option", { value: each, selected: each === value }, each)));
// In a file only what it has an answer to can be chosen.
const inFileOf = (question, name) => embedded && [...new Set(Object.keys(embedded.answers).map(text => new URLSearchParams(text)).filter(each => each.get("question") === question).map(each => each.get(name)))];
const namespaces = () => [...new Set([...state.holders.namespace.map(each => each.namespace), ...state.waiting.map(row => row.namespace)])].sort();
function startFields() {
  const resources = inFileOf("start", "resource") || state.resources;
  const most = resource => Math.max(1, ...state.nodes.map(node => node.sharing ? 0 : node.gpus[resource]?.total || 0)), first = resources[0];
  const start = first ? { gpus: String(most(first)), resource: first } : {};
  return { given: start, inputs: values => first ? [
    field("GPUs", embedded ? select("gpus", inFileOf("start", "gpus"), values.gpus) : make("input", { name: "gpus", type: "number", min: 1, max: 1024, required: true, value: values.gpus, "data-focus": "field gpus" })),
    field("resource", select("resource", resources, values.resource)),
    embedded ? null : field("of model", select("model", [...new Set(state.totals.map(each => each.model).filter(Boolean))], values.model, "any")),
    embedded ? null : field("in namespace", select("namespace", namespaces(), values.namespace, "the first that opted in"))].filter(Boolean) : [make("p", { class: "note" }, "No node offers GPUs by a device plugin.")] };
}
function auditFields() {
  const all = inFileOf("audit", "namespace") || namespaces();
  return { inputs: values => all.length ? [field("namespace", select("namespace", all, values.namespace, "choose one"))] : [make("p", { class: "note" }, "No namespace has GPU pods.")] };
}
function podFields() {
  const pods = embedded ? Object.keys(embedded.about) : [...state.nodes.flatMap(node => node.pods.map(key)), ...state.waiting.flatMap(row => row.pods.map(name => `${row.namespace}/${name}`))];
  return { inputs: values => [field("pod or workload, or click on a GPU below", make("input", { name: "pod", list: "pods", required: true, pattern: "[^/]+/[^/]+(/.+)?", placeholder: "namespace/name, as team-a/chat", autocomplete: "off", value: values.name ? `${values.namespace}/${values.name}` : "", "data-focus": "field pod" })),
    make("datalist", { id: "pods" }, ...[...new Set(pods)].sort().slice(0, MAX_PODS).map(value => make("option", { value })))] };
}
const list = (items, none) => items.length ? make("ul", {}, ...items.map(each => make("li", {}, ...[each].flat()))) : make("p", { class: "note" }, none);
const drain = node => { const command = `kubectl drain ${node} --ignore-daemonsets`; return copied(command, "Copy kubectl drain"); };
const sizeOf = name => { const node = state.nodes.find(each => each.name === name); return node ? `(${[node.pool, node.model, Object.entries(node.gpus).map(([resource, counts]) => `${counts.total} ${resource}`).join(", ")].filter(Boolean).join(", ")})` : ""; };
function drainable(found) {
  const out = state.nodes.filter(node => node.health !== "healthy" && !node.pods.length && !found.whole.includes(node.name));
  const moves = each => make("ul", { class: "moves" }, ...each.moves.map(move => make("li", {}, `${move.pod} → ${move.to}`)));
  return [make("h3", {}, "No pod has a GPU there: nothing has to move. Fewest whole GPUs first"), list(found.whole.map(name => [make("b", { "data-whole": name }, name), ` ${sizeOf(name)} `, drain(name)]), "No node is free as a whole."),
    out.length ? make("p", { class: "note" }, `Out already, and no pod has a GPU there: ${out.map(node => `${node.name} (${HEALTH[node.health]})`).join(", ")}.`) : null,
    make("h3", {}, "Free as a whole after a few pods have moved"), list(found.suggestions.map(each => [make("b", { "data-suggested": each.node }, each.node), ` ${sizeOf(each.node)} after ${plural(each.moves.length, "pod")} `, drain(each.node), moves(each)]), "No other node can be freed by moving a few pods of workloads."),
    make("p", { class: "note" }, "A pod moves when it is deleted: its controller makes another, and the webhook chooses its node. Each of these counts on those before it.")].filter(Boolean);
}
const rowsOf = (titles, lines) => make("table", { class: "ranking said" }, make("thead", {}, make("tr", {}, ...titles.map(title => make("th", { scope: "col" }, title)))), make("tbody", {}, ...lines.slice(0, MAX_LISTED).map(line => make("tr", {}, ...line.map(cell => make("td", {}, cell))))));
const left = lines => lines.length > MAX_LISTED ? make("p", { class: "note" }, `${lines.length - MAX_LISTED} more: ask on a terminal`) : null;
function idleFor(counts) {
  let said = 0;
  const found = ["1d", "6h", "1h"].filter(word => (counts?.[word] || 0) > said && (said = counts[word])).map(word => `${counts[word]} for ${word}`);
  return found.join(", ") || (counts?.window ? "less than 1h" : "");
}
const unnamed = pod => pod.measured === undefined; // metrics do not say which GPUs it has
function holdersOn(node) {
  const idle = new Map();
  for (const pod of node.pods) { const of = `${pod.namespace}/${pod.owner}`; idle.set(of, (idle.get(of) || 0) + (pod.idle || 0)); }
  return [...idle].map(([of, count]) => count ? `${of} (${count} idle)` : of).join(", ");
}
function idle(found) {
  const lines = found.nodes.map(each => [each.namespace, Object.entries(each.gpus).map(([resource, count]) => `${gpus(count)} ${resource}`).join(", "), each.idle ?? "not known", each.idleFor ? idleFor(each.idleFor) : "not known"]);
  const here = state.nodes.filter(node => node.idle).map(node => [node.name, `${node.idle}${node.pods.some(unnamed) ? " at least" : ""}`, node.devices.filter(each => each.idle).map(each => each.name).join(", "), holdersOn(node)]);
  const since = found.sinceUnknown && !found.unknown ? make("p", { class: "note" }, `${found.sinceUnknown[0].toUpperCase()}${found.sinceUnknown.slice(1)}.`) : null;
  return [found.unknown ? make("p", { class: "note" }, `${found.unknown[0].toUpperCase()}${found.unknown.slice(1)}.`) : null, found.more ? make("p", { class: "note" }, `${found.more[0].toUpperCase()}${found.more.slice(1)}.`) : null, lines.length ? rowsOf(["Namespace", "GPUs it has", "Idle now, at least", "Idle for at least"], lines) : make("p", { class: "note" }, "No pod has GPUs."), left(lines), since,
    here.length ? make("h3", {}, "Where") : null, here.length ? rowsOf(["Node", "Idle, and a pod has it", "Idle GPUs, free ones too", "Who has GPUs there"], here) : null].filter(Boolean);
}
function starts(found) {
  const [workload] = found.simulate.workloads, side = workload.with, on = Object.keys(side.bound)[0];
  const node = state.nodes.find(each => each.name === on), shared = node?.sharing ? `, each GPU shared by ${node.sharing}` : "";
  const head = workload.starts ? `It would start, on ${on}${node?.model ? ` (${node.model}${shared})` : ""}.` : side.refused ? "It would be refused." : "It would wait.";
  return [make("p", { class: `verdict ${workload.starts ? node?.sharing ? "warn" : "ok" : "broken"}` }, head), workload.starts && node?.sharing ? make("p", { class: "cause" }, "These are shares of GPUs, not whole ones: choose a model for whole GPUs.") : null, workload.message ? make("p", { class: "cause" }, workload.message) : null, ...workload.notes.map(note => make("p", { class: "note" }, note)), ...side.causes.map(causeOf),
    make("p", { class: "note" }, `Pods that wait already go first. Without the webhook ${workload.without.waiting ? `it would wait: ${[...new Set(workload.without.causes.map(each => words(each.cause)))].join(", ") || "see above"}` : `it would start, on ${Object.keys(workload.without.bound)[0]}`}.`),
    make("details", {}, make("summary", {}, "The pod that was tried: pod.yaml ", copied(JSON.stringify(found.manifest, null, 1))), make("pre", { class: "diff" }, JSON.stringify(found.manifest, null, 1))), ...drainable(found.balance)].filter(Boolean);
}
const STATES = ["broken", "warn", "unknown", "ok"];
function checks({ doctor, summary }) {
  const sorted = [...doctor].sort((a, b) => STATES.indexOf(a.state) - STATES.indexOf(b.state)), broken = / \d+ broken/.test(summary[0]), unknown = summary.some(line => line.startsWith("not known"));
  return [...summary.map((line, at) => make("p", at ? { class: "note" } : { class: `verdict ${broken ? "broken" : unknown ? "" : "ok"}` }, `${line[0].toUpperCase()}${line.slice(1)}`)), make("ul", { class: "checks" }, ...sorted.map(check))];
}
const check = each => make("li", { class: "check", "data-check": each.check, "data-state": each.state }, make("b", { class: `state ${each.state}` }, each.state),
  make("div", {}, make("b", {}, words(each.check)), `: ${each.text}`, each.next ? make("div", { class: "fix" }, `${each.next} `, ...runnable(each.next).map(text => copied(text))) : null));
const OUTCOMES = { refused: "broken", notRead: "broken", warned: "warn", changed: "ok", unchanged: "ok" };
function audited({ audit }, { namespace }) {
  if (!audit.length) return make("p", { class: "verdict ok" }, `Nothing for pods that exist: ${namespace} has no GPU pod without a decision.`);
  const counts = Object.keys(OUTCOMES).map(of => [audit.filter(each => each.outcome === of).reduce((all, each) => all + each.pods, 0), of]).filter(([count]) => count);
  const texts = each => [...("starts" in each ? [each.starts ? "it waits now, and would start" : "it waits now, and still would"] : []), ...each.findings.map(one => `${one.text} [${one.unit}]`), ...each.changes];
  return [make("p", { class: "verdict" }, `If they were created now: ${counts.map(([count, of]) => `${plural(count, "pod")} ${of === "notRead" ? "not read" : of}`).join(", ")}. Pods that run stay as they are.`),
    make("ul", { class: "checks" }, ...audit.slice(0, MAX_LISTED).map(each => make("li", { class: "check", "data-of": each.of, "data-outcome": each.outcome }, make("b", { class: `state ${OUTCOMES[each.outcome]}` }, each.outcome === "notRead" ? "not read" : each.outcome),
      make("div", {}, make("b", {}, each.of), each.pods > 1 ? ` × ${each.pods}` : "", ...texts(each).map(text => make("div", { class: "note" }, text)))))), left(audit)].filter(Boolean);
}

// ---- pointer and keyboard
function tip(event) {
  const target = event.target.closest?.(".cell, .device, .name, .say"), box = $("tip");
  box.hidden = !target?.tip;
  if (box.hidden) return;
  box.textContent = target.tip;
  const at = target.getBoundingClientRect(), wide = box.offsetWidth, high = box.offsetHeight;
  box.style.left = `${Math.max(8, Math.min(at.left, innerWidth - wide - 8))}px`;
  box.style.top = `${at.bottom + 8 + high > innerHeight ? at.top - high - 6 : at.bottom + 6}px`;
}
const steps = row => [row.firstChild, ...row.querySelectorAll(".cell")];
function move(event) {
  const row = event.target.closest(".node");
  if (!row || event.altKey || event.ctrlKey || event.metaKey) return;
  const all = [...$("map").querySelectorAll(".node")].filter(each => !each.hidden), here = steps(row), at = here.indexOf(event.target), line = all.indexOf(row);
  const to = { ArrowRight: () => here[at + 1], ArrowLeft: () => here[at - 1], Home: () => here[0], End: () => here.at(-1), ArrowDown: () => beside(all[line + 1], at), ArrowUp: () => beside(all[line - 1], at) }[event.key];
  if (event.key === "Enter" && event.target.cell?.pod) chooseCell(event.target.cell.pod);
  if (!to) return;
  event.preventDefault();
  const next = to();
  if (!next) return;
  $("map").querySelector('[tabindex="0"]')?.setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
}
const chooseCell = pod => choose({ by: "owner", holder: `${pod.namespace}/${pod.owner}`, pod: key(pod), ...(given().question === "pod" ? { ask: address("pod", { namespace: pod.namespace, name: pod.name }) } : {}) });
const beside = (row, at) => row && (steps(row)[at] || steps(row).at(-1));
document.addEventListener("pointerover", tip);
document.addEventListener("focusin", tip);
document.addEventListener("scroll", () => { $("tip").hidden = true; }, { passive: true });
document.addEventListener("keydown", event => { if (event.key === "Escape") { $("tip").hidden = true; if (choice.pod || choice.holder || choice.ask) choose({ pod: "", holder: "", ask: "" }); } });
$("map").addEventListener("keydown", move);
$("map").addEventListener("click", event => { const pod = event.target.cell?.pod; if (pod) chooseCell(pod); });
$("search").addEventListener("input", () => choose({ q: $("search").value.trim(), holder: "" }));
document.querySelector(".skip").addEventListener("click", event => { event.preventDefault(); $("waiting").focus(); });
$("link").addEventListener("click", async () => { await navigator.clipboard.writeText(location.href.split("#")[0] + hash(true)); $("link").textContent = "Copied"; setTimeout(() => { $("link").textContent = "Copy link"; }, 1200); });
$("export").addEventListener("click", () => {
  const url = URL.createObjectURL(new Blob([JSON.stringify(state, null, 2)], { type: "application/json" }));
  make("a", { href: url, download: "gpu-admission.json" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
});
addEventListener("hashchange", () => { const { pod, ask } = choice; readHash(); if (pod !== choice.pod) { details = null; look(); } if (ask !== choice.ask) answer(); render(); });
setInterval(() => { if (state?.live) render(); }, 30000);

readHash();
if (embedded) { state = embedded; look(); answer(); render(); } else follow();

// Draws the state that the server sends, or that stands in the file. All text goes through textContent: none of it is HTML.
const PARTS = ["allocated", "promised", "free", "unusable", "unknown"]; // unknown: without the right to list pods
const UNITS = { whole: "GPU", slice: "slice", share: "share" };
const CLASSES = ["inference", "inference-critical", "service", "training", "development"];
const HEALTH = { cordoned: "cordoned", notReady: "not ready", unhealthy: "unhealthy", offersNoGpus: "offers no GPUs", unknown: "health not known" };
const BYS = ["namespace", "workload", "class"];
const MANY = 64, SHOWN = 60, MAX_LISTED = 200, MAX_PODS = 5000, RETRY = 2000, SILENCE = 45000;
const DOWN = "gpu-admission ui does not answer: it has ended, has stopped, or is started anew at another address";
// Marks that turn the direction of the text after them: only who wants to mislead writes them into a name.
const TURNS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const read = text => JSON.parse(text.replace(TURNS, "\ufffd"));
const $ = id => document.getElementById(id);
const embedded = $("state") && read($("state").textContent);
const drawn = new Map(), texts = new WeakMap();
let state = null, token = "", details = null, reached = 0, down = "", shownRows = SHOWN, shownHolders = 12, pointed = null;
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
const when = seconds => Math.abs(now() - seconds) < 43200 ? clock(seconds) : day(seconds);
function age(since) {
  if (!since || !state.taken) return "";
  const seconds = Math.max(0, now() - since);
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60]]) if (seconds >= 2 * size) return `${Math.floor(seconds / size)}${unit}`;
  return `${Math.floor(seconds)}s`;
}
const aged = since => make("time", { "data-since": since }, age(since));
function tick() {
  for (const each of document.querySelectorAll("[data-since]")) write(each, age(Number(each.dataset.since)));
}
// Writing the same again would be read out again.
const write = (element, text) => { if (element.textContent !== text) element.textContent = text; };
// What is as before stays the same object, so that whatever shows it need not be drawn again.
function kept(before, found) {
  const text = each => { if (!texts.has(each)) texts.set(each, JSON.stringify(each)); return texts.get(each); };
  return before && found && typeof found === "object" && text(before) === text(found) ? before : found;
}
function take(found) {
  const known = new Map(state?.nodes.map(node => [node.name, node]));
  for (const name of Object.keys(found)) found[name] = name === "nodes" ? found.nodes.map(node => kept(known.get(node.name), node)) : kept(state?.[name], found[name]);
  if (state && found.nodes.length === state.nodes.length && found.nodes.every((node, at) => node === state.nodes[at])) found.nodes = state.nodes;
  state = found;
}
// Draw a part only if what it shows has changed: the rest of the page keeps its focus and its scroll position.
function once(name, shows, draw) {
  const before = drawn.get(name);
  if (before?.length === shows.length && shows.every((each, at) => each === before[at])) return;
  drawn.set(name, shows);
  const active = document.activeElement?.closest("[data-focus]")?.dataset.focus;
  draw();
  if (active && document.activeElement === document.body) document.querySelector(`[data-focus="${CSS.escape(active)}"]`)?.focus({ preventScroll: true });
}
function copied(text, label = "Copy") {
  return make("button", { type: "button", "aria-label": `${label}: ${text}`, "data-focus": `copy ${text}`, on: { click: event => copy(event.currentTarget, text, label) } }, label);
}
async function copy(button, text, label) {
  button.textContent = await navigator.clipboard.writeText(text).then(() => "Copied", () => "The browser forbids it");
  setTimeout(() => { button.textContent = label; }, 1200);
}

// ---- the choice: in the fragment of the address, so that a link shows the same
function readHash() {
  const given = new URLSearchParams(location.hash.slice(1));
  token = given.get("token") || token;
  for (const name of Object.keys(choice)) choice[name] = given.get(name) || "";
  if (!BYS.includes(choice.by)) choice.by = BYS[0];
  $("search").value = choice.q;
  agree();
}
// The pod that a question is about is the chosen one.
function agree() {
  const { question, ...of } = given();
  if (question === "pod" && of.name) choice.pod = key(of);
}
function hash(withToken) {
  const given = new URLSearchParams();
  if (withToken && token) given.set("token", token);
  for (const [name, value] of Object.entries(choice)) if (value && !(name === "by" && value === "namespace")) given.set(name, value);
  return `#${given}`;
}
function choose(change) {
  const { pod, ask } = choice;
  if ("pod" in change && given().question === "pod") change = { ask: change.pod && address("pod", podOf(change.pod)), ...change };
  choice = { ...choice, ...change };
  agree();
  history.replaceState(null, "", hash(true));
  if (pod !== choice.pod) { details = null; look(); }
  if ("ask" in change) answer();
  render();
}

// ---- the server
async function ask(path, within) {
  let answer, text;
  try {
    answer = await fetch(path, { headers: { Authorization: `Bearer ${token}` }, signal: within && AbortSignal.timeout(within) });
    text = await answer.text();
  } catch { throw new Error(DOWN); }
  if (answer.status === 204) return null;
  const found = read(text);
  if (!answer.ok) throw Object.assign(new Error(found.error), { status: answer.status });
  return found;
}
// What a question gave, or why it gave nothing.
const told = async question => { try { return await question(); } catch (error) { return { error: error.message }; } };
async function follow() {
  for (let status = 0; status !== 401;) {
    try {
      const found = await ask(`/state?after=${state && !down ? state.version : -1}`, SILENCE), first = !state; // after a failure it is answered at once
      [reached, down, status] = [Date.now(), "", 200];
      if (found) { take(found); look(); }
      if (first) answer();
    } catch (error) { [down, status] = [error.message, error.status]; }
    render();
    if (down) await new Promise(done => setTimeout(done, RETRY));
  }
}
// In a file the nodes of a cause are given by their place in a list: many pods have the same.
const inFile = each => each?.why ? { ...each, why: { ...each.why, causes: each.why.causes.map(cause => ({ ...cause, nodes: embedded.lists[cause.nodes] })) } } : each;
async function look() {
  const wanted = choice.pod, of = podOf(wanted);
  if (!wanted || !state) return;
  const none = { error: `this file has no more about it; gpu-admission why -n ${of.namespace} ${of.name} says it` };
  const found = await told(async () => embedded ? inFile(embedded.about[wanted]) || none : ask(`/pod?${new URLSearchParams(of)}`));
  if (wanted !== choice.pod) return;
  details = kept(details, found);
  render();
}

// ---- the parts of the page
function banner(text) {
  $("banner").hidden = !text;
  write($("banner"), text);
}
function render() {
  try { draw(); } catch (error) { // else the page would stay as it is, and look live
    banner(`This page has a fault, and shows something wrong: ${error.message}`);
    reportError(error);
  }
}
function draw() {
  if (!state) return banner(down);
  write($("source"), [state.source, `by ${state.by}`].filter(Boolean).join(", "));
  const old = down ? `${down}. What you see is of ${when(reached / 1000)}.` : state.old ? `These data are old, of ${when(state.old.since)}: ${state.old.why}.` : "";
  banner([old, state.problem, state.missing && `Not known: ${state.missing}.`, state.untried && `${state.untried[0].toUpperCase()}${state.untried.slice(1)}.`, state.leftOut && `Left out, as this file would be too large: what helps ${state.leftOut} of ${plural(state.waiting.length, "waiting row")}.`].filter(Boolean).join(" "));
  $("fresh").className = state.live && !state.old && !down ? "live" : "";
  write($("fresh"), state.live ? (down ? "not connected" : state.old ? "old" : "live") : state.taken ? `as of ${day(state.taken)}` : "a file without a time");
  once("head", [state.totals, state.largest, state.withoutRight, state.live], renderHead);
  once("trend", [state.history, state.withoutRight, state.live && Math.floor(now() / 30)], renderTrend);
  once("legend", [state.nodes, state.withoutRight], renderLegend);
  once("map", [state.nodes, state.withoutRight], renderMap);
  renderChoice();
  renderAsk();
  renderPod();
  once("waiting", [state.waiting, choice.q, choice.cause, choice.pod, details, shownRows], renderWaiting);
  once("holders", [state.holders, choice.q && state.nodes, choice.by, choice.holder, choice.q, shownHolders], renderHolders);
  once("decisions", [state.decisions, choice.q], renderDecisions);
  tick();
  if (pointed && !pointed.isConnected) $("tip").hidden = true;
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
  put($("sums"), ...use, start);
  $("models").hidden = !models.length;
  $("models").tabIndex = models.length > 5 ? 0 : -1;
  put($("models"), table);
}
function renderTrend() {
  const points = state.history;
  $("trend").hidden = !state.live || state.withoutRight.length > 0;
  $("head").classList.toggle("with-trend", !$("trend").hidden);
  if ($("trend").hidden) return;
  if (points.length < 2) return put($("trend"), make("span", { class: "label" }, "GPUs in use since this was opened: no change yet"));
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
  put($("trend"), make("span", { class: "label" }, text), svg);
}
function renderLegend() {
  const all = [...new Set(state.nodes.flatMap(node => node.pods.concat(node.promises).map(pod => pod.class)))].sort((a, b) => CLASSES.indexOf(a) - CLASSES.indexOf(b) || a.localeCompare(b));
  const ours = all.filter(each => CLASSES.includes(each)), others = all.filter(each => !CLASSES.includes(each)), classes = [...ours, ...others.slice(0, 5)];
  const entry = (kind, name, letter = "") => make("span", {}, make("i", { class: `cell ${kind}`, "aria-hidden": "true" }, letter), name);
  const marks = state.withoutRight.length ? [["unknown", "not known"]] : [["promised training", "promised"], ["free", "free"], ["unusable", "unusable"]];
  const measured = state.nodes.some(node => node.devices.length) ? [["device idle", "idle"], ["device hot", "hot"], ["device sick", "sick"]] : [];
  $("legend").hidden = !state.nodes.length;
  put($("legend"), ...classes.map(each => entry(style(each), each, letter(each))), others.length > 5 ? make("span", {}, `and ${plural(others.length - 5, "other")}`) : null, ...marks.map(each => entry(...each)),
    ...measured.map(([kind, name]) => make("span", {}, make("i", { class: kind, "aria-hidden": "true" }), name)),
    state.withoutRight.length ? null : make("button", { type: "button", "aria-pressed": String(onlyFree), "data-focus": "only free", on: { click: event => { onlyFree = !onlyFree; event.target.setAttribute("aria-pressed", onlyFree); renderChoice(); } } }, "only free"));
}
const style = of => CLASSES.includes(of) ? of : "other";
const letter = of => ([...of][0] || "?").toUpperCase();

// ---- the map
const gpus = amount => +amount.toFixed(3); // parts of GPUs are fractions
// In the order in which they are drawn: those that one pod has, or that are alike, are one run.
function runs(node) {
  const found = [];
  for (const [resource, counts] of Object.entries(node.gpus)) {
    const add = (amount, run) => { const count = gpus(amount), cells = run.kind === "held" || run.kind === "promised" ? Math.ceil(count) : Math.floor(count); if (cells > 0) found.push({ ...run, resource, count, cells }); };
    const alone = of => Object.keys(of).length === 1, idle = node.idle > 0 && node.idle >= counts.allocated && alone(node.gpus);
    const quiet = pod => unnamed(pod) ? idle && Infinity : alone(pod.gpus) && pod.idle;
    for (const [kind, pods] of [["held", node.pods], ["promised", node.promises]]) {
      let left = kind === "held" ? counts.allocated : counts.promised;
      for (const pod of pods) { const mine = Math.min(left, pod.gpus[resource] || 0); add(mine, { kind, pod, quiet: kind === "held" && quiet(pod) }); left -= mine; }
      add(left, { kind, pod: null });
    }
    for (const kind of ["free", "unusable", "unknown"]) add(counts[kind] || 0, { kind });
  }
  return found;
}
function says(node, cell) {
  const unit = cell.count === 1 ? "1" : String(cell.count);
  const why = node.health === "healthy" ? "it is sick, or not offered" : HEALTH[node.health];
  const what = { free: "free", unknown: "not known who has it, or whether it is free:", unusable: `unusable: ${why}`, promised: "promised to", held: "held by" }[cell.kind];
  const who = cell.pod ? ` ${key(cell.pod)}` : cell.kind === "held" || cell.kind === "promised" ? " a pod that is not known" : "";
  const more = cell.pod ? `\n${cell.pod.workload}, ${cell.pod.class}` : "";
  return `${what}${who}${more}\n${unit} ${cell.resource} on ${node.name}${!cell.quiet ? "" : cell.quiet < cell.count ? `, ${cell.quiet} of them idle now` : ", idle now"}`;
}
function describes(device) {
  const known = [device.percent === null ? "" : `${device.percent} % used`, device.memory ? `${Math.round(device.memory[0] / 1024)}/${Math.round(device.memory[1] / 1024)} GiB` : "", device.temperature === null ? "" : `${device.temperature} °C`];
  return `${device.name}: ${[...["sick", "hot", "idle"].filter(mark => device[mark]), ...known].filter(Boolean).join(", ") || "nothing known"}`;
}
function summary(node) {
  const amounts = Object.entries(node.gpus).map(([resource, counts]) => `${gpus(counts.total)} ${resource}: ${PARTS.filter(part => counts[part]).map(part => `${gpus(counts[part])} ${part}`).join(", ") || "none"}`);
  return `${node.name}, ${HEALTH[node.health] || "healthy"}${node.model ? `, ${node.model}` : ""}. ${amounts.join("; ") || "no GPUs"}`;
}
function state_of(node) {
  const free = Object.values(node.gpus).reduce((all, counts) => all + counts.free, 0);
  const marks = [HEALTH[node.health], node.sick ? `${node.sick} sick` : "", node.idle ? `${node.idle} idle` : "", node.temperature >= 90 ? `${node.temperature} °C` : ""].filter(Boolean);
  return state.withoutRight.includes("nodes") ? "yours; the rest is not known" : marks.length ? marks.join(", ") : state.withoutRight.length ? "" : `${gpus(free)} free`;
}
// What a pointer and the arrow keys show of an element, and what is read out there.
function tipped(element, text) {
  element.tip = text;
  element.setAttribute("aria-label", text.replaceAll("\n", ", "));
  return element;
}
function drawNode(node) {
  const all = runs(node), count = all.reduce((sum, run) => sum + run.cells, 0), bunched = count > MANY;
  const square = (run, at) => {
    const mark = run.pod ? letter(run.pod.class) : run.kind === "held" || run.kind === "unknown" ? "?" : "", same = at > 0 && run.pod;
    const made = make("i", { role: "gridcell", tabindex: "-1", class: `cell ${run.kind}${run.pod ? ` ${style(run.pod.class)}` : ""}${same ? " same" : ""}${at < (run.quiet || 0) ? " idle" : ""}` }, bunched ? run.count : same ? "" : mark);
    made.cell = run;
    return tipped(made, says(node, run));
  };
  const squares = all.slice(0, MAX_LISTED).flatMap(run => Array.from({ length: bunched ? 1 : run.cells }, (_, at) => square(run, at)));
  const devices = node.devices.map(device => {
    const square = make("i", { class: `device${device.idle ? " idle" : ""}${device.hot ? " hot" : ""}${device.sick ? " sick" : ""}` });
    if (device.percent !== null) square.style.setProperty("--u", `${device.percent}%`);
    square.tip = describes(device);
    return square;
  });
  const name = tipped(make("span", { class: "name", role: "rowheader", tabindex: "-1" }, node.name),
    [summary(node), node.taints.length ? `taints: ${node.taints.join(", ")}` : "", ...node.devices.map(describes)].filter(Boolean).join("\n"));
  return make("div", { role: "row", class: `node ${node.health}${count > 24 && !bunched ? " small" : ""}`, "data-node": node.name }, name,
    make("span", { class: "cells", role: "presentation" }, ...squares, devices.length ? make("span", { class: "devices", "aria-hidden": "true" }, ...devices) : null),
    make("span", { class: "say", role: "gridcell", tabindex: "-1" }));
}
const rows = new Map(), folded = new Set();
let onlyFree = false;
function fold(pool) {
  if (!folded.delete(pool)) folded.add(pool);
  document.querySelector(`[data-pool="${CSS.escape(pool)}"] button`).setAttribute("aria-expanded", !folded.has(pool));
  renderChoice();
}
function renderMap() {
  const pools = Map.groupBy(state.nodes, node => node.pool), names = new Set(state.nodes.map(node => node.name)), noNodes = state.withoutRight.includes("nodes");
  for (const node of state.nodes) {
    const known = rows.get(node.name);
    if (known?.node === node) continue;
    const row = drawNode(node), at = known ? steps(known.row).indexOf(document.activeElement) : -1;
    if (known) known.row.replaceWith(row);
    rows.set(node.name, { row, node });
    if (at >= 0) rove(steps(row)[at] || steps(row)[0]).focus({ preventScroll: true });
  }
  for (const [name, { row }] of rows) if (!names.has(name)) { row.remove(); rows.delete(name); }
  const drawnPools = new Map([...document.querySelectorAll(".pool")].map(each => [each.dataset.pool, each]));
  const sections = [...pools].map(([pool, nodes]) => {
    const counts = nodes.flatMap(node => Object.values(node.gpus)), total = counts.reduce((all, each) => all + each.total, 0), free = counts.reduce((all, each) => all + each.free, 0);
    const section = drawnPools.get(pool) || make("div", { class: "pool", role: "rowgroup", "data-pool": pool }, make("h3", { role: "presentation" }), make("div", { class: "nodes", role: "presentation" }));
    section.style.setProperty("--name", `${7.6 * Math.max(...nodes.map(node => node.name.length))}px`);
    put(section.firstChild, make("button", { type: "button", "aria-expanded": String(!folded.has(pool)), "data-focus": `fold ${pool}`, on: { click: () => fold(pool) } }, pool || (noNodes ? "nodes of your pods" : "no pool")), make("span", {}, `${plural(nodes.length, "node")}, ${state.withoutRight.length ? plural(gpus(total), "GPU") : `${gpus(free)} of ${gpus(total)} free`}`));
    putKept(section.lastChild, nodes.map(node => rows.get(node.name).row));
    return section;
  });
  putKept($("map"), sections.length ? sections : [make("p", { class: "empty" }, noNodes ? "Not known without the right to list nodes." : "No node has GPUs.")]);
}
// An element that moves loses its focus: those that are in place stay.
const putKept = (element, wanted) => { if (element.children.length !== wanted.length || wanted.some((each, at) => element.children[at] !== each)) element.replaceChildren(...wanted); };
// The cell of the map that the Tab key reaches.
function rove(to) {
  $("map").querySelector('[tabindex="0"]')?.setAttribute("tabindex", "-1");
  to?.setAttribute("tabindex", "0");
  return to;
}
const holderOf = pod => ({ namespace: pod.namespace, workload: `${pod.namespace}/${pod.workload}`, class: pod.class })[choice.by];
// What a search looks at, in the words that stand on the page.
const hay = words => words.filter(Boolean).join("\n").toLowerCase();
const ofPod = pod => [key(pod), `${pod.namespace}/${pod.workload}`, pod.class, ...Object.keys(pod.gpus)];
const ofNode = node => [node.name, node.pool, node.model, ...node.taints, HEALTH[node.health], ...Object.keys(node.gpus)];
const ofRow = row => [`${row.namespace}/${row.name}`, ...row.pods.map(name => `${row.namespace}/${name}`), row.why, row.text, row.fix, ...row.asks];
function renderChoice() {
  const answer = choice.pod && details?.why, causes = answer ? answer.causes : [], ranked = (choice.pod && details?.decision?.nodes) || [];
  const out = new Map();
  for (const cause of causes) for (const name of cause.nodes) if (!out.has(name)) out.set(name, cause);
  const place = new Map(ranked.map((node, at) => [node.name, at + 1])), q = choice.q.toLowerCase();
  const filtered = causes.length && causes.some(cause => cause.nodes.length);
  const could = state.withoutRight.length ? "not known" : "could take it";
  let ruledOut = 0, hits = 0;
  $("map").classList.toggle("choosing", !!filtered);
  for (const entry of rows.values()) {
    const { row, node } = entry;
    const cause = out.get(node.name), fits = filtered && !cause;
    ruledOut += !!cause && cause.cause !== "fitsNow";
    row.hidden = q ? !(entry.hay ??= hay([...ofNode(node), ...[...node.pods, ...node.promises].flatMap(ofPod)])).includes(q)
      : folded.has(node.pool) || (onlyFree && !Object.values(node.gpus).some(each => each.free > 0));
    hits += !row.hidden;
    row.classList.toggle("out", !!cause && cause.cause !== "fitsNow");
    row.classList.toggle("fits", !state.withoutRight.length && !!(fits || cause?.cause === "fitsNow"));
    const say = row.lastChild, said = cause && cause.cause !== "fitsNow" ? words(cause.cause) : fits || cause ? could : state_of(node);
    const text = place.has(node.name) ? `#${place.get(node.name)} ${said}` : said, tip = cause ? `${text}\n${cause.text}` : text;
    write(say, text);
    if (say.tip !== tip) tipped(say, tip);
    say.classList.toggle("bad", !cause && node.health !== "unknown" && !!(HEALTH[node.health] || node.sick));
    const own = !!choice.pod && node.pods.some(pod => key(pod) === choice.pod), mark = `${choice.holder && choice.by} ${choice.holder} ${own ? choice.pod : ""}`;
    if (row.mark === mark || (!row.mark && !choice.holder && !own)) continue;
    row.mark = mark;
    for (const square of row.children[1].children) if (square.cell) {
      square.classList.toggle("dim", !!choice.holder && !(square.cell.pod && holderOf(square.cell.pod) === choice.holder));
      square.classList.toggle("chosen", !!square.cell.pod && key(square.cell.pod) === choice.pod);
    }
  }
  for (const pool of document.querySelectorAll(".pool")) pool.hidden = (!!q || !folded.has(pool.dataset.pool)) && ![...pool.lastChild.children].some(row => !row.hidden);
  if (!$("map").querySelector('.node:not([hidden]) [tabindex="0"]')) rove($("map").querySelector(".node:not([hidden]) .name"));
  const search = q && rows.size ? `${hits} of ${plural(rows.size, "node")} with “${choice.q}”` : "";
  const note = !choice.pod || (details && !details.error && !answer) ? (choice.holder ? `Shown: the GPUs of ${choice.holder}` : "") : !details ? `Looking at ${choice.pod} …` : details.error ? details.error
    : filtered ? `${choice.pod}: ${ruledOut} of ${plural(rows.size, "node")} ruled out; the reason stands beside each` : state.nodes.length ? `${choice.pod}: no node is ruled out; see why it waits` : "";
  write($("map-note"), [search, note].filter(Boolean).join(". "));
}
const words = cause => (cause.match(/[A-Z]?[a-z]+/g) || [cause]).map(word => ({ cpu: "CPU", gpu: "GPU", gpus: "GPUs" })[word.toLowerCase()] || word.toLowerCase()).join(" ");

// ---- what waits
function renderWaiting() {
  const q = choice.q.toLowerCase(), counts = new Map();
  for (const row of state.waiting) counts.set(row.cause, (counts.get(row.cause) || 0) + row.pods.length);
  write($("waiting-title"), `Waiting: ${plural(state.waiting.reduce((all, row) => all + row.pods.length, 0), "pod")}`);
  const tab = (name, label) => make("button", { type: "button", "data-focus": `cause ${name}`, "aria-pressed": String(choice.cause === name), on: { click: () => choose({ cause: name }) } }, label);
  put($("causes"), ...(counts.size > 1 ? [tab("", "all"), ...[...counts].sort((a, b) => b[1] - a[1]).map(([cause, count]) => tab(cause, `${words(cause)} ${count}`))] : []));
  const found = Map.groupBy(state.waiting.filter(row => !choice.cause || row.cause === choice.cause), row => !q || hay(ofRow(row)).includes(q)), hits = found.get(true) || [];
  const shown = [...hits, ...(found.get(false) || [])]; // a search hides none of them: what it does not find comes after
  const items = shown.slice(0, shownRows).map((row, at) => {
    const first = `${row.namespace}/${row.pods[0]}`, open = row.pods.some(pod => `${row.namespace}/${pod}` === choice.pod);
    const button = make("button", { type: "button", "aria-expanded": String(open), "data-focus": `row ${first}`, on: { click: () => choose({ pod: open ? "" : first }) } },
      make("span", { class: "who" }, `${row.namespace}/${row.name}`), make("span", { class: "num" }, row.gpus ? plural(row.gpus, "GPU") : "", row.gpus && row.since ? ", " : "", aged(row.since)), make("span", { class: "why" }, row.why), make("span", {}),
      make("span", { class: `fix${row.enough ? " enough" : ""}` }, `${row.enough ? "Enough alone: " : ""}${row.fix}`));
    return make("li", { class: `row${at < hits.length ? "" : " other"}`, "data-pod": first }, button, open ? about() : null);
  });
  const none = state.waiting.length ? [`None by ${words(choice.cause)} any more. `, make("button", { type: "button", on: { click: () => choose({ cause: "" }) } }, "Show all")] : ["No pod waits."];
  put($("rows"), q && shown.length ? make("li", { class: "empty" }, `${hits.length} of ${plural(shown.length, "row")} with “${choice.q}”${hits.length === shown.length ? "" : hits.length ? ", then the others" : "; all others:"}`) : null,
    ...items, shown.length > shownRows ? more("rows", `${shown.length - shownRows} more`, () => { shownRows += SHOWN; render(); }) : null, shown.length ? null : make("li", { class: "empty" }, ...none));
}
const more = (of, text, act) => make("li", {}, make("button", { type: "button", class: "more", "data-focus": `more ${of}`, on: { click: act } }, text));
const shell = word => /^[\w./:@=,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
const fixOf = fix => {
  const line = (fix.command || []).map(shell).join(" ");
  return make("div", { class: `fix${fix.enough ? " enough" : ""}` }, `${fix.enough ? "Enough alone: " : ""}${fix.text}`, ...(line ? [`: ${line} `, copied(line)] : []));
};
const causeOf = cause => make("div", { class: `cause${cause.elsewhere ? " elsewhere" : ""}`, "data-cause": cause.cause },
  make("b", {}, words(cause.cause)), `: ${cause.text}${cause.nodes.length ? ` (${plural(cause.nodes.length, "node")})` : ""}`,
  ...cause.fixes.map(fixOf), cause.then ? make("div", {}, `The first is not enough: then ${cause.then}`) : null);
// The GPUs of the chosen pod, as the map shows them.
function holds() {
  for (const node of state.nodes) for (const pod of node.pods) if (key(pod) === choice.pod) return make("p", { class: "on" }, "On ", make("b", {}, node.name), `: ${Object.entries(pod.gpus).map(([resource, count]) => `${gpus(count)} ${resource}`).join(", ")}, ${pod.class}, ${pod.workload}`);
  return null;
}
// Of a workload: where its pods are, and what tells them apart.
function several({ text, groups }, namespace) {
  const other = name => make("button", { type: "button", "data-focus": `pod ${name}`, on: { click: () => choose({ pod: `${namespace}/${name}` }) } }, name);
  return [make("p", { class: "on" }, text), make("ul", { class: "groups" }, ...groups.map(each => make("li", {}, make("p", {}, each.text),
    ...each.pods.slice(0, MAX_LISTED).map(other), left(each.pods)))), make("p", { class: "note" }, `All below is about ${groups[0].pods[0]}.`)];
}
// What is known of the chosen pod: why it waits, and the decision on it.
function about() {
  if (!details) return make("div", { class: "detail" }, "…");
  if (details.error) return make("div", { class: "detail" }, holds(), make("p", {}, details.error));
  const answer = details.why, explained = details.decision, { namespace, name } = podOf(choice.pod), of = `-n ${shell(namespace)} ${shell(name)}`;
  const commands = explained ? [`gpu-admission why ${of}`, `kubectl describe pod -n ${shell(namespace)} ${shell(explained.name)}`] : [`kubectl describe ${of.replace(/ ([^ /]+)\//, " $1 ")}`];
  return make("div", { class: "detail" }, ...(explained?.replicas ? several(explained.replicas, namespace) : [holds()]), ...(answer?.causes || []).map(causeOf), ...(answer?.notes || []).map(note => make("p", { class: "note" }, note)),
    answer?.schedulerSays ? make("p", { class: "says" }, `The scheduler says: ${answer.schedulerSays}`) : null,
    ...(explained ? decision(explained) : []), ...commands.map(command));
}
const command = text => make("div", { class: "command" }, make("code", {}, text), copied(text));
// The chosen pod, if its row of the waiting ones does not show it.
function renderPod() {
  const hidden = !choice.pod || waits(choice.pod) || given().question === "pod";
  $("pod").hidden = hidden;
  once("pod", [hidden, choice.pod, details, state.nodes], () => {
    put($("pod-title"), ...(hidden ? [] : [choice.pod, make("button", { type: "button", class: "close", "aria-label": "Close", on: { click: () => choose({ pod: "", holder: "" }) } }, "×")]));
    put($("pod-detail"), hidden ? null : about());
  });
}
function decision(found) {
  if (found.undecided) return [make("p", { class: "note" }, `Decision: ${found.undecided}`)];
  const parts = [found.text, found.decided, found.karpenter].filter(Boolean).map((text, at) => make("p", { class: at ? "note" : "on" }, text));
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
    const all = hay(ofNode(node)).includes(q);
    for (const pod of node.pods) {
      if (!all && !hay(ofPod(pod)).includes(q)) continue;
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
  put($("by"), ...BYS.map(by => make("button", { type: "button", "data-focus": `by ${by}`, "aria-pressed": String(choice.by === by), on: { click: () => choose({ by, holder: "" }) } }, by)));
  const all = holders(choice.q.toLowerCase());
  const items = all.slice(0, shownHolders).map(each => {
    const name = each[choice.by], on = choice.holder === name;
    const amounts = Object.entries(each.gpus).map(([resource, count]) => `${gpus(count)} ${resource}`).join(", ");
    return make("li", { class: "holder" }, make("button", { type: "button", "aria-pressed": String(on), "data-focus": `holder ${name}`, on: { click: () => choose({ holder: on ? "" : name }) } },
      make("span", {}, name), make("span", { class: "num" }, `${amounts}, ${plural(each.pods, "pod")}`, ...(each.since ? [", oldest ", aged(each.since)] : []), each.idle ? `, ${each.idle} idle` : "")));
  });
  put($("holders"), ...items, all.length > shownHolders ? more("holders", `${all.length - shownHolders} more`, () => { shownHolders += 100; render(); }) : null, !all.length ? make("li", { class: "empty" }, state.withoutRight.length ? "Not known." : choice.q ? `Nobody with “${choice.q}”.` : "Nobody.") : null,
    all.length && state.withoutRight.length ? make("li", { class: "empty" }, "Others: not known.") : null);
}
function renderDecisions() {
  const open = new Set([...document.querySelectorAll(".decision[open]")].map(each => each.dataset.of)), q = choice.q.toLowerCase();
  const shown = state.decisions.filter(each => !q || hay([key(each), `${each.namespace}/${each.workload}`, each.class, each.text, each.boundTo, ...(each.nodes || []).map(node => node.name)]).includes(q));
  put($("decisions"), ...shown.map(each => {
    const of = `${key(each)} ${each.at}`, where = each.nodes?.length ? ` → ${each.nodes[0].name}` : "";
    const result = { refused: "refused", wouldBeRefused: "would be refused" }[each.result];
    const head = make("summary", { "data-focus": `decision ${of}` }, result ? make("b", { class: "refused" }, `${result} `) : null, key(each), where, make("span", {}, ` ${[each.class, each.at ? when(each.at) : ""].filter(Boolean).join(", ")}`));
    const body = result ? [make("p", { class: "note" }, each.text)] : [...decision(each)];
    return make("details", { class: "decision", "data-of": of, open: open.has(of) }, head, make("div", { class: "detail" }, ...body));
  }), shown.length ? null : make("p", { class: "empty" }, state.decisions.length ? `None with “${choice.q}”.` : "None is known: no pod has a decision, and no Event tells of a refusal."));
}

// ---- questions: the answers of other commands, as the server or the file gives them
const ASKED = {
  drain: { text: "Which node can I drain?", command: () => "drain", draw: found => drainable(found.drain) },
  idle: { text: "Which GPUs are idle, whose, since when?", command: () => "top namespaces", draw: idle },
  start: { text: "Would a pod start, and what would let it?", fields: startFields, command: () => "try -f pod.yaml", draw: starts },
  pod: { text: "Why is a pod on its node?", fields: podFields, command: given => `why -n ${shell(given.namespace)} ${shell(given.name)}`, draw: about },
  preempt: { text: "Who may preempt whom?", command: () => "doctor", draw: found => make("ul", { class: "checks" }, ...found.doctor.map(check)) },
  health: { text: "Is the webhook healthy?", command: () => "doctor", draw: found => checks(found) },
  audit: { text: "What would opting in change?", fields: auditFields, command: given => `policy diff -n ${shell(given.namespace)}`, draw: audited },
};
const given = () => Object.fromEntries(new URLSearchParams(choice.ask));
const known = question => Object.hasOwn(ASKED, question) ? ASKED[question] : null;
const address = (question, values = {}) => String(new URLSearchParams({ question, ...values }));
const podOf = text => ({ namespace: text.split("/")[0], name: text.split("/").slice(1).join("/") });
let answered = null, asking = "";
async function answer() {
  const wanted = choice.ask, { question, ...values } = given(), asked = known(question);
  [answered, asking] = [null, ""];
  if (!asked || !state || question === "pod" || (asked.fields && !Object.keys(values).length)) return;
  asking = wanted;
  const none = { error: `this file has no answer to that; gpu-admission ${asked.command(values)} has` };
  const found = await told(async () => embedded ? embedded.answers[wanted] || none : ask(`/answer?${wanted}`));
  if (wanted !== choice.ask) return;
  [answered, asking] = [{ found, at: state.old ? state.old.since : Date.now() / 1000 }, ""]; // it is as old as what it was made of
  render();
}
function renderAsk() {
  const { question, ...values } = given(), asked = known(question), isPod = question === "pod" && values.name;
  once("questions", [question], () => put($("questions"), ...Object.entries(ASKED).map(([name, { text, fields }]) => make("button", { type: "button", "data-focus": `ask ${name}`, "data-question": name, "aria-expanded": String(name === question),
    on: { click: () => choose({ ask: name === question ? "" : address(name, fields?.().given), ...(question === "pod" ? { pod: "", holder: "" } : {}) }) } }, text))));
  once("form", [choice.ask], () => { $("answer").classList.remove("stale"); put($("form"), asked?.fields ? make("form", { class: "fields", on: { input: () => $("answer").classList.add("stale"), submit: event => {
    event.preventDefault();
    $("answer").classList.remove("stale");
    const { pod, ...others } = Object.fromEntries([...new FormData(event.target)].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value));
    choose({ ask: address(question, pod ? podOf(pod) : others) });
  } } }, ...asked.fields().inputs(values).flat(), make("button", { type: "submit", class: "go" }, "Ask")) : null); });
  once("answer", [choice.ask, asking, answered, isPod && details, isPod && state.nodes], () => {
    if (!asked || (!asking && !answered && !isPod)) return put($("answer"));
    if (asking) return put($("answer"), make("p", { class: "note" }, "Asking …"));
    if (isPod) return put($("answer"), make("div", { class: "answer", "data-answer": question }, about()));
    const { found, at } = answered, line = command(`gpu-admission ${asked.command(values)}`);
    if (state.live) line.append(make("span", { class: "label" }, `as of ${when(at)}`), make("button", { type: "button", on: { click: () => { answer(); render(); } } }, "Ask again"));
    put($("answer"), found.error ? make("p", { class: "note" }, found.error) : make("div", { class: "answer", "data-answer": question }, ...[asked.draw(found, values)].flat()), line);
  });
  write($("heard"), $("answer").textContent.slice(0, 200)); // the whole of an answer would be read out for minutes
}
const field = (label, ...inputs) => make("label", {}, make("span", { class: "label" }, label), ...inputs);
const select = (name, all, value, none) => make("select", { name, "data-focus": `field ${name}` }, ...(none ? [make("option", { value: "" }, none)] : []), ...all.map(each => make("option", { value: each, selected: each === value }, each)));
// A field to type in, which offers what is known.
const typed = (name, value, all, more = {}) => [make("input", { name, value, list: `known-${name}`, autocomplete: "off", spellcheck: "false", "data-focus": `field ${name}`, ...more }),
  make("datalist", { id: `known-${name}` }, ...[...new Set(all)].sort().slice(0, MAX_PODS).map(each => make("option", { value: each })))];
// In a file only what it has an answer to can be chosen.
const inFileOf = (question, name) => embedded && [...new Set(Object.keys(embedded.answers).map(text => new URLSearchParams(text)).filter(each => each.get("question") === question).map(each => each.get(name)))];
const namespaces = () => [...state.holders.namespace.map(each => each.namespace), ...state.waiting.map(row => row.namespace)];
function startFields() {
  const resources = inFileOf("start", "resource") || state.resources, first = resources[0];
  const most = Math.max(1, ...state.nodes.map(node => node.one ? 0 : node.gpus[first]?.total || 0));
  return { given: first ? { gpus: String(most), resource: first } : {}, inputs: values => !first ? [make("p", { class: "note" }, "No node offers GPUs by a device plugin.")] : embedded ? [
    field("GPUs", select("gpus", inFileOf("start", "gpus"), values.gpus)), field("resource", select("resource", resources, values.resource))] : [
    field("GPUs", make("input", { name: "gpus", type: "number", min: 1, max: 1024, required: true, value: values.gpus, "data-focus": "field gpus" })),
    field("resource", select("resource", resources, values.resource)),
    field("of model", select("model", [...new Set(state.totals.map(each => each.model).filter(Boolean))], values.model, "any")),
    field("it tolerates, too", ...typed("tolerates", values.tolerates, state.nodes.flatMap(node => node.taints), { placeholder: "key=value:Effect, …" })),
    field("in namespace", ...typed("namespace", values.namespace, namespaces(), { placeholder: "the first that opted in" }))] };
}
function auditFields() {
  const all = inFileOf("audit", "namespace");
  return { inputs: values => [!all ? field("namespace", ...typed("namespace", values.namespace, namespaces(), { required: true })) : all.length ? field("namespace", select("namespace", all, values.namespace, "choose one")) : make("p", { class: "note" }, "No namespace has GPU pods without a decision.")] };
}
function podFields() {
  const pods = embedded ? Object.keys(embedded.about) : [...state.nodes.flatMap(node => node.pods.map(key)), ...state.waiting.flatMap(row => row.pods.map(name => `${row.namespace}/${name}`))];
  return { inputs: values => [field("pod or workload, or click on a GPU below", ...typed("pod", values.name && key(values), pods, { required: true, pattern: "[^/]+/[^/]+(/.+)?", placeholder: "namespace/name, as team-a/chat" }))] };
}
const left = lines => lines.length > MAX_LISTED ? make("p", { class: "note" }, `${lines.length - MAX_LISTED} more: ask on a terminal`) : null;
const list = (items, none) => items.length ? [make("ul", {}, ...items.slice(0, MAX_LISTED).map(each => make("li", {}, ...[each].flat()))), left(items)] : [make("p", { class: "note" }, none)];
const sentence = text => text && make("p", { class: "note" }, `${text[0].toUpperCase()}${text.slice(1)}.`);
function drainable({ drainable: unused, whole, cordoned, suggestions }) {
  const drainable = unused.filter(each => whole.includes(each.node)), broken = unused.filter(each => !whole.includes(each.node)).map(each => each.node);
  const drain = node => copied(`kubectl drain ${node} --ignore-daemonsets`, "Copy kubectl drain");
  const moves = each => make("ul", { class: "moves" }, ...each.moves.map(move => make("li", {}, `${move.pod} → ${move.to}`)));
  return [make("h3", {}, "No pod has a GPU there: nothing has to move. Fewest whole GPUs first"), ...list(drainable.map(each => [make("b", { "data-whole": each.node }, each.node), ` (${each.gpus}) `, drain(each.node)]), "No node is free as a whole."),
    broken.length ? make("p", { class: "note" }, `Broken, and no pod has a GPU there: ${broken.join(", ")}.`) : null,
    cordoned.length ? make("p", { class: "note" }, `Cordoned already, and no pod has a GPU there: ${cordoned.join(", ")}.`) : null,
    make("h3", {}, "Free as a whole after a few pods have moved"), ...list(suggestions.map(each => [make("b", { "data-suggested": each.node }, each.node), ` (${each.gpus}) after ${plural(each.moves.length, "pod")} `, drain(each.node), moves(each)]), "No other node can be freed by moving a few pods of workloads."),
    make("p", { class: "note" }, "A pod moves when it is deleted: its controller makes another, and the webhook chooses its node. Each of these counts on those before it.")];
}
const rowsOf = (titles, lines) => make("table", { class: "ranking said" }, make("thead", {}, make("tr", {}, ...titles.map(title => make("th", { scope: "col" }, title)))), make("tbody", {}, ...lines.slice(0, MAX_LISTED).map(line => make("tr", {}, ...line.map(cell => make("td", {}, cell))))));
function idleFor(counts) {
  let said = 0;
  const found = ["1d", "6h", "1h"].filter(word => (counts?.[word] || 0) > said && (said = counts[word])).map(word => `${counts[word]} for ${word}`);
  return found.join(", ") || (counts?.window ? "less than 1h" : "");
}
const unnamed = pod => pod.measured === undefined; // metrics do not say which GPUs it has
function holdersOn(node) {
  const idle = new Map();
  for (const pod of node.pods) { const of = `${pod.namespace}/${pod.workload}`; idle.set(of, (idle.get(of) || 0) + (pod.idle || 0)); }
  return [...idle].map(([of, count]) => count ? `${of} (${count} idle)` : of).join(", ");
}
function idle(found) {
  const lines = found.nodes.map(each => [each.namespace, Object.entries(each.gpus).map(([resource, count]) => `${gpus(count)} ${resource}`).join(", "), each.idle ?? "not known", each.idleFor ? idleFor(each.idleFor) : "not known"]);
  const here = state.nodes.filter(node => node.idle).map(node => [node.name, `${node.idle}${node.pods.some(unnamed) ? " at least" : ""}`, node.devices.filter(each => each.idle).map(each => each.name).join(", "), holdersOn(node)]);
  return [sentence(found.unknown), sentence(found.more), lines.length ? rowsOf(["Namespace", "GPUs it has", "Idle now, at least", "Idle for at least"], lines) : make("p", { class: "note" }, "No pod has GPUs."), left(lines), found.unknown ? null : sentence(found.sinceUnknown),
    ...(here.length ? [make("h3", {}, "Where"), rowsOf(["Node", "Idle, and a pod has it", "Idle GPUs, free ones too", "Who has GPUs there"], here), left(here)] : [])];
}
function starts(found) {
  const [workload] = found.try.items, on = Object.keys(workload.bound)[0], refused = workload.outcome === "refused";
  const node = state.nodes.find(each => each.name === on), shared = node?.sharing ? `, each GPU shared by ${node.sharing}` : node?.one ? ", in slices" : "";
  const head = workload.good ? `It would start, on ${on}${node?.model ? ` (${node.model}${shared})` : ""}.` : refused ? "It would be refused." : "It would wait.";
  return [make("p", { class: `verdict ${workload.good ? node?.one ? "warn" : "ok" : "broken"}` }, head), workload.good && node?.one ? make("p", { class: "cause" }, `These are ${node.one}s of GPUs, not whole ones: choose a model for whole GPUs.`) : null, workload.message ? make("p", { class: "cause" }, workload.message) : null, ...workload.notes.map(note => make("p", { class: "note" }, note)), ...workload.causes.map(causeOf),
    make("p", { class: "note" }, "Pods that wait already go first."),
    make("details", {}, make("summary", {}, "The pod that was tried: pod.yaml ", copied(JSON.stringify(found.manifest, null, 1))), make("pre", { class: "diff" }, JSON.stringify(found.manifest, null, 1))),
    workload.causes.some(each => ["gpusTaken", "gpusFragmented"].includes(each.cause)) ? make("p", { class: "note" }, "Nodes that a few moves would free as a whole: ", make("button", { type: "button", on: { click: () => choose({ ask: address("drain") }) } }, ASKED.drain.text)) : null];
}
const STATES = ["broken", "warn", "unknown", "ok"];
function checks({ doctor, summary }) {
  const sorted = [...doctor].sort((a, b) => STATES.indexOf(a.state) - STATES.indexOf(b.state)), broken = / \d+ broken/.test(summary[0]), unknown = summary.some(line => line.startsWith("not known"));
  return [...summary.map((line, at) => make("p", at ? { class: "note" } : { class: `verdict ${broken ? "broken" : unknown ? "" : "ok"}` }, `${line[0].toUpperCase()}${line.slice(1)}`)), make("ul", { class: "checks" }, ...sorted.map(check))];
}
const check = each => make("li", { class: "check", "data-check": each.check, "data-state": each.state }, make("b", { class: `state ${each.state}` }, each.state),
  make("div", {}, make("b", {}, words(each.check)), `: ${each.text}`, each.next ? make("div", { class: "fix" }, each.next, ...(each.command.length ? [" ", copied(each.command.map(shell).join(" "))] : [])) : null));
const CHANGES = { refused: "broken", found: "warn", changed: "ok", same: "ok" };
function audited({ audit }, { namespace }) {
  if (!audit.length) return make("p", { class: "verdict ok" }, `Nothing for pods that exist: ${namespace} has no GPU pod without a decision.`);
  const counts = Object.keys(CHANGES).map(of => [audit.filter(each => each.change === of).reduce((all, each) => all + each.pods, 0), of]).filter(([count]) => count);
  const texts = each => [...("starts" in each ? [each.starts ? "it waits now, and would start" : "it waits now, and still would"] : []), ...each.findings.map(one => `${one.text} [${one.unit}]`), ...each.changes];
  return [make("p", { class: "verdict" }, `If they were created now: ${counts.map(([count, of]) => `${plural(count, "pod")} ${words(of)}`).join(", ")}. Pods that run stay as they are.`),
    make("ul", { class: "checks" }, ...audit.slice(0, MAX_LISTED).map(each => make("li", { class: "check", "data-of": each.workload, "data-outcome": each.change }, make("b", { class: `state ${CHANGES[each.change]}` }, words(each.change)),
      make("div", {}, make("b", {}, each.workload), each.pods > 1 ? ` × ${each.pods}` : "", ...texts(each).map(text => make("div", { class: "note" }, text)))))), left(audit)];
}

// ---- pointer and keyboard
function tip(event) {
  const target = event.target.closest?.(".cell, .device, .name, .say"), box = $("tip");
  pointed = target;
  box.hidden = !target?.tip;
  if (box.hidden) return;
  box.textContent = target.tip;
  const at = target.getBoundingClientRect(), wide = box.offsetWidth, high = box.offsetHeight;
  box.style.left = `${Math.max(8, Math.min(at.left, innerWidth - wide - 8))}px`;
  box.style.top = `${at.bottom + 8 + high > innerHeight ? at.top - high - 6 : at.bottom + 6}px`;
}
const steps = row => [row.firstChild, ...row.querySelectorAll(".cell"), row.lastChild];
function move(event) {
  const row = event.target.closest(".node");
  if (!row || event.altKey || event.ctrlKey || event.metaKey) return;
  const all = [...$("map").querySelectorAll(".node")].filter(each => !each.hidden), here = steps(row), at = here.indexOf(event.target), line = all.indexOf(row);
  const to = { ArrowRight: () => here[at + 1], ArrowLeft: () => here[at - 1], Home: () => here[0], End: () => here.at(-1), ArrowDown: () => beside(all[line + 1], at), ArrowUp: () => beside(all[line - 1], at) }[event.key];
  const pod = ["Enter", " "].includes(event.key) && event.target.cell?.pod;
  if (!to && !pod) return;
  event.preventDefault();
  if (pod) return chooseCell(pod);
  const next = to();
  if (next) rove(next).focus();
}
const chooseCell = pod => choose({ by: "workload", holder: `${pod.namespace}/${pod.workload}`, pod: key(pod) });
const beside = (row, at) => row && (steps(row)[at] || steps(row).at(-1));
document.addEventListener("pointerover", tip);
document.addEventListener("focusin", tip);
document.addEventListener("scroll", () => { $("tip").hidden = true; }, { passive: true });
document.addEventListener("keydown", event => { if (event.key === "Escape") { $("tip").hidden = true; if (choice.pod || choice.holder || choice.ask) choose({ pod: "", holder: "", ask: "" }); } });
$("map").addEventListener("keydown", move);
$("map").addEventListener("click", event => { const pod = event.target.cell?.pod; if (pod) chooseCell(pod); });
$("search").addEventListener("input", () => choose({ q: $("search").value.trim(), holder: "" }));
document.querySelector(".skip").addEventListener("click", event => { event.preventDefault(); $("waiting").focus(); });
$("link").addEventListener("click", () => copy($("link"), location.href.split("#")[0] + hash(true), "Copy link"));
$("export").addEventListener("click", () => {
  const url = URL.createObjectURL(new Blob([JSON.stringify(state, null, 2)], { type: "application/json" }));
  make("a", { href: url, download: "gpu-admission.json" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
});
addEventListener("hashchange", () => {
  const { pod, ask } = choice, before = token;
  readHash();
  if (token !== before) return location.reload(); // the address of another `ui` at the same port
  if (pod !== choice.pod) { details = null; look(); }
  if (ask !== choice.ask) answer();
  render();
});
setInterval(() => { if (state?.live) tick(); }, 1000);
setInterval(() => { if (state?.live) render(); }, 30000);

readHash();
if (embedded) { state = embedded; look(); answer(); render(); } else follow();
